//! One connection in use.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Deadline, Instant};
use sqlx::pool::PoolConnection;
use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, Sender};

use super::places::Place;
use super::{Connections, Lane, Plain};
use crate::server::dialect::Dialect;
use crate::server::error::{Doing, Trouble, closed, exhausted, late};

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
        let pooled = self.borrow(lane, deadline).await?;
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

    async fn own(self: &Arc<Self>, lane: Lane, deadline: Deadline) -> Result<(Held<D>, bool), Trouble> {
        let left = deadline.instant().since(self.clock.now());
        let taken = self.timers.limit(left, self.places.take(lane)).await.ok_or_else(exhausted)?;
        let place = taken.ok_or_else(closed)?;
        if let Some(Idle { connection, opened, .. }) = self.fit_idle() {
            return Ok((Held::Own { connection, opened, place }, true));
        }
        let (reply, opened) = oneshot::channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "begun again and again by callers in a hurry, it would never end; bounded by the connection's time-out"
        )]
        tokio::spawn(Arc::clone(self).open_at(lane, place, reply));
        let left = deadline.instant().since(self.clock.now());
        let opened = self.timers.limit(left, opened).await;
        opened.and_then(Result::ok).unwrap_or_else(|| Err(late(Doing::Opening)))
    }

    /// Opens a connection, and leaves it for the next call if nobody waits for it any more.
    async fn open_at(self: Arc<Self>, lane: Lane, place: Place<Idle<D>>, reply: Sender<Opening<D>>) {
        let _turn = self.openings.turn(lane).await;
        if reply.is_closed() {
            return;
        }
        // Another call may be done with one meanwhile.
        let idle = self.fit_idle();
        let was_idle = idle.is_some();
        let found = match idle {
            Some(Idle { connection, opened, .. }) => Ok((connection, opened)),
            None => {
                let opened = self.clock.now();
                let open = self.opener.open(&self.clock, Deadline::NEVER).await;
                self.openings.note(open.is_ok());
                open.map(|Plain(connection)| (connection, opened))
            }
        };
        let held = found.map(|(connection, opened)| (Held::Own { connection, opened, place }, was_idle));
        if let Err(Ok((held, was_idle))) = reply.send(held) {
            drop(Checkout { home: Arc::clone(&self), held: Some(held), is_fit: true, was_idle });
        }
    }

    /// What lies idle and may still be used.
    fn fit_idle(&self) -> Option<Idle<D>> {
        let now = self.clock.now();
        self.places.take_fit(|idle| now.since(idle.since) < IDLE_MOST && now.since(idle.opened) < AGE_MOST)
    }
}

/// A connection that was opened, or that lay idle by then, as the flag says.
type Opening<D> = Result<(Held<D>, bool), Trouble>;

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
