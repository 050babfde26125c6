//! One connection in use.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Deadline, Instant};
use sqlx::pool::PoolConnection;
use tokio::runtime::Handle;

use super::places::Place;
use super::{Connections, Lane, Plain, within};
use crate::server::dialect::Dialect;
use crate::server::error::{Doing, Trouble, classify, closed, exhausted};

/// A connection that nobody has used for so long is closed: servers and what stands between them close
/// those, some without a word.
const IDLE_MOST: Duration = Duration::from_secs(60);
/// One that is older is closed: names and credentials may have changed meanwhile.
const AGE_MOST: Duration = Duration::from_secs(30 * 60);

/// A connection of our own that nobody uses now.
pub(super) struct Idle<D: Dialect> {
    pub(super) connection: D::Connection,
    opened: Instant,
    since: Instant,
}

/// One connection in use. It goes back only if [`Checkout::is_fit`] was said; else it is closed, since
/// nobody knows what is still under way on it.
pub(super) struct Checkout<D: Dialect> {
    home: Arc<Connections<D>>,
    held: Option<Held<D>>,
    is_fit: bool,
    /// Whether it was opened earlier, so that the server may have closed it meanwhile.
    pub(super) was_idle: bool,
}

enum Held<D: Dialect> {
    Own { connection: D::Connection, opened: Instant, place: Place<Idle<D>> },
    Pooled(PoolConnection<D>),
}

impl<D: Dialect> Connections<D> {
    /// A connection for a call that has to be over at `deadline`.
    pub(super) async fn check_out(
        self: &Arc<Self>,
        lane: Lane,
        deadline: Deadline,
    ) -> Result<Checkout<D>, Trouble> {
        let pooled = match (&self.pool, lane) {
            (None, _) => None,
            (Some(pool), Lane::Upkeep) => pool.try_acquire(),
            (Some(pool), Lane::Attempt) => {
                let left = deadline.remaining(&self.clock).unwrap_or_default();
                // Boxed, as what is rare and large: else every call carries the room for it around.
                let acquired = Box::pin(within(left, pool.acquire())).await.ok_or_else(exhausted)?;
                Some(acquired.map_err(|error| classify::<D>(error, Doing::Opening))?)
            }
        };
        let (held, was_idle) = match pooled {
            Some(connection) => (Held::Pooled(connection), true),
            None => self.own(lane, deadline).await?,
        };
        Ok(Checkout { home: Arc::clone(self), held: Some(held), is_fit: false, was_idle })
    }

    /// Opens one connection of our own, which shows whether the server is fit for locks.
    pub(crate) async fn warm(self: &Arc<Self>) -> Result<(), Trouble> {
        let deadline = Deadline::after(&self.clock, self.response_timeout);
        let (held, was_idle) = self.own(Lane::Upkeep, deadline).await?;
        drop(Checkout { home: Arc::clone(self), held: Some(held), is_fit: true, was_idle });
        Ok(())
    }

    async fn own(&self, lane: Lane, deadline: Deadline) -> Result<(Held<D>, bool), Trouble> {
        let now = self.clock.now();
        let fit = |idle: &Idle<D>| now.since(idle.since) < IDLE_MOST && now.since(idle.opened) < AGE_MOST;
        let left = deadline.instant().since(now);
        let taken = self.timers.limit(left, self.places.take(lane, fit)).await.ok_or_else(exhausted)?;
        let (place, idle) = taken.ok_or_else(closed)?;
        if let Some(Idle { connection, opened, .. }) = idle {
            return Ok((Held::Own { connection, opened, place }, true));
        }
        let opened = self.clock.now();
        let Plain(connection) = Box::pin(self.opener.open(&self.clock, deadline)).await?;
        Ok((Held::Own { connection, opened, place }, false))
    }
}

impl<D: Dialect> Checkout<D> {
    pub(super) fn connection(&mut self) -> &mut D::Connection {
        match &mut self.held {
            Some(Held::Own { connection, .. }) => connection,
            Some(Held::Pooled(connection)) => connection,
            None => unreachable!("it is taken out in drop alone"),
        }
    }

    /// The last statement was answered in full: the connection may be used again.
    pub(super) const fn is_fit(&mut self) {
        self.is_fit = true;
    }
}

impl<D: Dialect> Drop for Checkout<D> {
    fn drop(&mut self) {
        match self.held.take() {
            Some(Held::Own { connection, opened, place }) if self.is_fit => {
                place.leave(Idle { connection, opened, since: self.home.clock.now() });
            }
            Some(Held::Pooled(connection)) if !self.is_fit => {
                // Closes it, and lets the pool open another.
                if Handle::try_current().is_ok() {
                    drop(connection.detach());
                } else {
                    drop(connection.leak());
                }
            }
            _ => {}
        }
    }
}
