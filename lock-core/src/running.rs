//! A flag that a background task is running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a background task of a backend is running. It is not any more when the task ends or is
/// dropped, even if it was never polled.
#[derive(Debug, Default)]
pub struct Running(Arc<AtomicBool>);

impl Running {
    /// Marks the task as running until the guard is dropped; `None` if it is running already. The
    /// guard must be moved into the task, not made in it: a runtime that ends drops tasks unpolled.
    pub fn begin(&self) -> Option<RunningGuard> {
        let was_running = self.0.swap(true, Ordering::AcqRel);
        (!was_running).then(|| RunningGuard(Arc::clone(&self.0)))
    }
}

/// Held by the running task.
#[derive(Debug)]
#[must_use]
pub struct RunningGuard(Arc<AtomicBool>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_dropped_before_its_first_poll_is_not_running() {
        let running = Running::default();
        let task = running.begin().map(|guard| async move { drop(guard) });
        assert!(running.begin().is_none(), "it runs");
        drop(task);
        assert!(running.begin().is_some());
    }
}
