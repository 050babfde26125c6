//! A guard whose every word is recorded.

use std::sync::Arc;

use distlock_core::{LockGuard, LockState, Release, Result};
use tokio::task::JoinHandle;

use crate::history::{Recorder, What};

/// A guard that writes down until when it says it is valid, what it answers, and when it announces
/// its loss, so that the history can be held against it.
#[derive(Debug)]
pub struct Tracked {
    guard: Option<LockGuard>,
    log: Arc<Recorder>,
    watch: JoinHandle<()>,
}

impl Tracked {
    /// Tracks `guard` from now on.
    #[must_use]
    pub fn new(guard: LockGuard, log: &Arc<Recorder>) -> Self {
        let view = guard.view();
        log.record(view.key(), view.owner(), What::Valid { until: view.valid_until().as_nanos() });
        log.record(view.key(), view.owner(), What::Watching);
        let recorder = Arc::clone(log);
        let watch = tokio::spawn(async move {
            view.lost().await;
            let until = view.valid_until().as_nanos();
            recorder.record(view.key(), view.owner(), What::Lost { until });
        });
        Self { guard: Some(guard), log: Arc::clone(log), watch }
    }

    /// The guard.
    pub fn guard(&self) -> &LockGuard {
        self.guard.as_ref().expect("taken out only with the whole")
    }

    /// Asks the guard whether it is valid, and records the answer.
    pub fn is_valid(&self) -> bool {
        let guard = self.guard();
        let at = self.log.now();
        let valid = guard.is_valid();
        // Read after the answer: the validity only grows.
        let until = guard.valid_until().as_nanos();
        self.log.record_at(at, guard.key(), guard.owner(), What::Checked { valid, until });
        valid
    }

    /// Asks the guard how it stands.
    pub(crate) fn state(&self) -> LockState {
        self.is_valid();
        self.guard().state()
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// Those of [`LockGuard::unlock`].
    pub async fn unlock(self) -> Result<Release> {
        self.is_valid();
        self.into_guard().unlock().await
    }

    /// Stops watching.
    fn leave(&self) {
        self.watch.abort();
        let guard = self.guard();
        self.log.record(guard.key(), guard.owner(), What::Unwatched);
    }

    /// The guard, not tracked any more.
    pub(crate) fn into_guard(mut self) -> LockGuard {
        self.leave();
        self.guard.take().expect("taken out only with the whole")
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.leave();
        }
    }
}
