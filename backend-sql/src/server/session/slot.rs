//! The link of a lock that is held.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, MutexGuard, Notify};

use super::dialect::SessionDialect;
use super::link::Link;
use crate::server::connections::Line;

/// The link of a lock that is held; empty when the session is over, or the lock given back.
///
/// One at a time uses it. While nobody does, its end may be listened for.
pub(super) struct Slot<D: SessionDialect> {
    link: Mutex<Option<Link<D>>>,
    /// How many use it or wait for it.
    users: AtomicUsize,
    wanted: Notify,
}

/// Somebody who uses a link, or waits for it.
struct User<'a>(&'a AtomicUsize);

/// A link in use.
pub(super) struct InUse<'a, D: SessionDialect> {
    pub(super) link: MutexGuard<'a, Option<Link<D>>>,
    _user: User<'a>,
}

impl<D: SessionDialect> Slot<D> {
    pub(super) fn new(link: Link<D>) -> Self {
        Self { link: Mutex::new(Some(link)), users: AtomicUsize::new(0), wanted: Notify::new() }
    }

    /// Whether a statement is under way.
    pub(super) fn is_in_use(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    /// The link, for as long as it takes.
    pub(super) async fn take_up(&self) -> InUse<'_, D> {
        let user = User::new(&self.users);
        let mut locking = std::pin::pin!(self.link.lock());
        let link = match futures_util::poll!(&mut locking) {
            std::task::Poll::Ready(link) => link,
            std::task::Poll::Pending => {
                // Not before this one is in the line: whoever listens goes to its end.
                self.wanted.notify_one();
                locking.await
            }
        };
        InUse { link, _user: user }
    }

    /// Listens while nobody uses the link. Says whether the session's end was heard, after which the slot is empty;
    /// if not, somebody else has emptied it.
    pub(super) async fn end_is_heard(&self) -> bool {
        loop {
            let mut link = self.link.lock().await;
            let Some(open) = link.as_mut() else { return false };
            tokio::select! {
                biased;
                () = self.wanted.notified() => {}
                () = open.line.ended() => {
                    *link = None;
                    return true;
                }
            }
        }
    }
}

impl<'a> User<'a> {
    fn new(users: &'a AtomicUsize) -> Self {
        users.fetch_add(1, Ordering::Relaxed);
        Self(users)
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
