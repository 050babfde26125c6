//! Connections that the application's pool lends.

use std::time::Duration;

use distlock_core::{Deadline, Effect, Error, ErrorKind};
use sqlx::pool::PoolConnection;

use super::{Connections, Lane, within};
use crate::server::dialect::{Dialect, Standing, Then};
use crate::server::error::{Doing, Trouble, classify, exhausted, late};

impl<D: Dialect> Connections<D> {
    /// A connection of the application's pool. None if there is no pool, or if a call that has connections of its
    /// own would have to wait for one that is fit.
    ///
    /// One that a transaction was left open on is closed, which ends that: a grant in there would last as long as
    /// nobody rolls it back. sqlx up to 0.9.0 leaves one open when it is dropped while it begins
    /// (sqlx#4393).
    pub(super) async fn borrow(
        &self,
        lane: Lane,
        deadline: Deadline,
    ) -> Result<Option<PoolConnection<D>>, Trouble> {
        let Some(pool) = &self.pool else { return Ok(None) };
        let mut has_failed = false;
        loop {
            let mut lent = match lane {
                Lane::Upkeep => match pool.try_acquire() {
                    Some(lent) => lent,
                    None => return Ok(None),
                },
                Lane::Attempt => {
                    // Boxed, as what is rare and large: else every call carries the room for it around.
                    let acquired = Box::pin(within(self.left(deadline), pool.acquire())).await;
                    acquired.ok_or_else(exhausted)?.map_err(|error| classify::<D>(error, Doing::Opening))?
                }
            };
            let standing = Box::pin(within(self.left(deadline), D::standing(&mut lent))).await;
            match standing {
                Some(Ok(Standing::Clear)) => return Ok(Some(lent)),
                // The application goes on to use it as it is.
                Some(Ok(Standing::WithoutAutocommit)) => drop(lent),
                _ => drop(lent.detach()),
            }
            if lane == Lane::Upkeep {
                return Ok(None);
            }
            match standing {
                Some(Ok(Standing::WithoutAutocommit)) => return Err(without_autocommit()),
                Some(Ok(_)) => {}
                // Probably closed while nobody used it.
                Some(Err(_)) if !has_failed => has_failed = true,
                Some(Err(error)) => return Err(classify::<D>(error, Doing::Opening)),
                None => return Err(late(Doing::Opening)),
            }
        }
    }

    fn left(&self, deadline: Deadline) -> Duration {
        deadline.remaining(&self.clock).unwrap_or_default()
    }
}

fn without_autocommit() -> Trouble {
    let message = "the application's pool has sessions without autocommit, where a grant lasts as long as nobody rolls it back; let it set autocommit = 1, or give the locks a pool of their own";
    let error = Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None);
    Trouble { error, then: Then::Fail }
}
