//! Waking waiters: at once when the release happens here, by looking when it may happen elsewhere.

mod log;
mod poller;
mod watchers;

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Claim, Error, ErrorKind, Result, Running};
use tokio::sync::Notify;

use super::store::Store;
use watchers::Watchers;

/// All who wait on one backend, and the one task that looks for them.
#[derive(Debug)]
pub(super) struct Waiting {
    store: Arc<Store>,
    /// Longest pause between two looks.
    poll: Duration,
    watchers: Watchers,
    /// Somebody new wants a look at once.
    look_now: Notify,
    polling: Running,
}

impl Waiting {
    pub(super) fn new(store: Arc<Store>, poll: Duration) -> Arc<Self> {
        Arc::new(Self {
            store,
            poll,
            watchers: Watchers::default(),
            look_now: Notify::new(),
            polling: Running::default(),
        })
    }

    /// Resolves when `claim` had better try again. The first look is at the lock as it is, not at
    /// what changes from now on, so a release before this call is seen as well.
    pub(super) async fn watch(self: &Arc<Self>, claim: &Claim, busy: &Busy) -> Result<()> {
        let closed = || Error::new(ErrorKind::Shutdown, "the database was closed; connect again");
        let mut waiter = self.watchers.join(claim, busy.cursor.0).ok_or_else(closed)?;
        self.look_now.notify_one();
        self.keep_polling();
        waiter.woken().await.then_some(()).ok_or_else(closed)
    }

    /// Something happened to a lock through this backend: whoever waits here is looked after at once.
    pub(super) fn changed(&self) {
        self.look_now.notify_one();
    }

    /// Wakes everybody for good.
    pub(super) fn close(&self) {
        self.watchers.close();
        self.look_now.notify_one();
    }

    /// Starts the poller unless it runs. It ends when nobody waits any more.
    fn keep_polling(self: &Arc<Self>) {
        let Some(running) = self.polling.begin() else { return };
        let waiting = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "one task looks for all waiters of the backend; it ends with the last of them"
        )]
        tokio::spawn(async move {
            poller::run(&waiting).await;
            drop(running);
            // Somebody may have come between the last look and the end.
            if !waiting.watchers.is_empty() {
                waiting.keep_polling();
            }
        });
    }
}
