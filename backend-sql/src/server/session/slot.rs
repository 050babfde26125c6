//! The link of a lock that is held.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::{Mutex, MutexGuard, Notify};

use super::dialect::SessionDialect;
use super::ear::Ear;
use super::link::Link;
use super::times::Times;

/// The link of a lock that is held; empty when the session is over, or the lock given back.
///
/// One at a time uses it. While nobody does, its end may be listened for.
pub(super) struct Slot<D: SessionDialect> {
    link: Mutex<Option<Link<D>>>,
    users: Users,
}

/// Who uses a link, or waits for it.
pub(crate) struct Users {
    count: AtomicUsize,
    wanted: Notify,
}

/// Somebody who uses a link, or waits for it.
pub(crate) struct User<'a>(&'a AtomicUsize);

/// A link in use.
pub(super) struct InUse<'a, D: SessionDialect> {
    pub(super) link: MutexGuard<'a, Option<Link<D>>>,
    _user: User<'a>,
}

impl<D: SessionDialect> Slot<D> {
    pub(super) fn new(link: Link<D>) -> Self {
        let users = Users { count: AtomicUsize::new(0), wanted: Notify::new() };
        Self { link: Mutex::new(Some(link)), users }
    }

    /// Whether a statement is under way.
    pub(super) fn is_in_use(&self) -> bool {
        self.users.count.load(Ordering::Relaxed) > 0
    }

    /// Has whoever listens look at the time.
    pub(super) fn disturb(&self) {
        self.users.wanted.notify_one();
    }

    /// The link, for as long as it takes.
    pub(super) async fn take_up(&self) -> InUse<'_, D> {
        let user = self.users.begin();
        let mut locking = std::pin::pin!(self.link.lock());
        let link = match futures_util::poll!(&mut locking) {
            Poll::Ready(link) => link,
            Poll::Pending => {
                // Not before this one is in the line: whoever listens goes to its end.
                self.users.wanted.notify_one();
                locking.await
            }
        };
        InUse { link, _user: user }
    }

    /// Listens while nobody uses the link. Says whether the session's end was heard, after which the slot is empty;
    /// if not, somebody else has emptied it.
    pub(super) async fn end_is_heard(&self, ear: &mut D::Ear, times: &Times) -> bool {
        loop {
            let mut link = self.link.lock().await;
            let Some(open) = link.as_mut() else { return false };
            if ear.listen(open, times, &self.users).await {
                *link = None;
                return true;
            }
        }
    }
}

impl Users {
    /// Resolves when somebody wants the link. May be dropped at any point.
    pub(crate) async fn want_it(&self) {
        self.wanted.notified().await;
    }

    /// One more, who is in nobody's way.
    pub(crate) fn begin(&self) -> User<'_> {
        self.count.fetch_add(1, Ordering::Relaxed);
        User(&self.count)
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
