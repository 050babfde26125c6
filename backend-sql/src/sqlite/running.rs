//! A flag that a background task is running.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a background task is running. It is not any more when the task ends or is dropped.
#[derive(Debug, Default)]
pub(super) struct Running(AtomicBool);

impl Running {
    /// Marks the task as running; false if it is already.
    pub(super) fn begin(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// What the task keeps while it runs.
    pub(super) const fn until_dropped(&self) -> RunningGuard<'_> {
        RunningGuard(self)
    }
}

/// Held by the running task.
pub(super) struct RunningGuard<'a>(&'a Running);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}
