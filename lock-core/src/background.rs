//! The client's background task: one in each runtime that uses the client.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;

use crate::clock::{Clock, Instant};
use crate::error::{Error, ErrorKind, Result};
use crate::releaser::Releaser;
use crate::watchdog::Watchdog;

/// The running background tasks of a client. Normally one; a client that is used from a second
/// runtime gets one there as well, since either runtime may stop being driven.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    running: Mutex<Vec<Arc<BackgroundTask>>>,
    closed: AtomicBool,
}

/// One background task, as others see it.
#[derive(Debug)]
pub(crate) struct BackgroundTask {
    runtime: Id,
    wake: Notify,
    /// When it will look again by itself; written under the schedule's lock.
    planned: AtomicU64,
    /// How many locks had been put under watch when it looked last.
    seen: AtomicU64,
}

impl BackgroundTasks {
    /// Starts the background task in the present runtime unless it runs there already.
    pub(crate) fn ensure(self: &Arc<Self>, watchdog: &Arc<Watchdog>, releaser: &Arc<Releaser>) -> Result<()> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::new(
                ErrorKind::Misconfigured,
                "no tokio runtime is running here; call this from within one",
            )
        })?;
        let mut running = self.running();
        if running.iter().any(|task| task.runtime == runtime.id()) {
            return Ok(());
        }
        let task = Arc::new(BackgroundTask {
            runtime: runtime.id(),
            wake: Notify::new(),
            planned: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        });
        running.push(Arc::clone(&task));
        drop(running);
        let leave = Leave { tasks: Arc::clone(self), task };
        runtime.spawn(drive(leave, Arc::clone(watchdog), Arc::clone(releaser)));
        Ok(())
    }

    /// Wakes every task that would look only after `due`.
    pub(crate) fn wake_before(&self, due: Instant) {
        for task in self.running().iter() {
            if due.as_nanos() < task.planned.load(Ordering::Acquire) {
                task.wake.notify_one();
            }
        }
    }

    /// Wakes every task.
    pub(crate) fn wake_all(&self) {
        for task in self.running().iter() {
            task.wake.notify_one();
        }
    }

    /// Lets the tasks end when nothing is left to do.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake_all();
    }

    fn running(&self) -> MutexGuard<'_, Vec<Arc<BackgroundTask>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackgroundTask {
    /// Plans the next look: when something is due, and meanwhile as often as the clock wants checking.
    /// `watched` counts the locks that were put under watch so far.
    ///
    /// It sleeps for good only when no lock was taken since it looked last: a program that takes one
    /// lock after another would otherwise wake it each time, even if it finds none under watch.
    pub(crate) fn plan(&self, due: Option<Instant>, watched: u64, now: Instant, check_every: Duration) {
        let is_quiet = self.seen.swap(watched, Ordering::AcqRel) == watched;
        let check = now.plus(check_every);
        let planned = match due {
            Some(due) => due.min(check),
            None if is_quiet => Instant::FAR,
            None => check,
        };
        self.planned.store(planned.as_nanos(), Ordering::Release);
    }

    async fn rest(&self, clock: &Clock) {
        let planned = Instant::from_nanos(self.planned.load(Ordering::Acquire));
        if planned == Instant::FAR {
            return self.wake.notified().await;
        }
        tokio::select! {
            () = self.wake.notified() => {}
            () = tokio::time::sleep(planned.since(clock.now())) => {}
        }
    }
}

/// Strikes the task off the list when it ends, also when its runtime is shut down.
struct Leave {
    tasks: Arc<BackgroundTasks>,
    task: Arc<BackgroundTask>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.tasks.running().retain(|task| !Arc::ptr_eq(task, &self.task));
    }
}

async fn drive(leave: Leave, watchdog: Arc<Watchdog>, releaser: Arc<Releaser>) {
    let task = Arc::clone(&leave.task);
    let clock = releaser.clock();
    let mut renewals = FuturesUnordered::new();
    let mut sweeps = FuturesUnordered::new();
    let mut later = FuturesUnordered::new();
    let mut listening = FuturesUnordered::new();
    loop {
        renewals.extend(watchdog.tick(&task).into_iter().map(|batch| watchdog.renew(batch)));
        while let Some(sweep) = releaser.next(sweeps.len()) {
            if sweep.is_for_later() {
                later.push(releaser.later(sweep));
            } else {
                sweeps.push(releaser.run(sweep));
            }
        }
        listening.extend(watchdog.newly_held().into_iter().map(|held| watchdog.listen(held)));
        let closed = leave.tasks.closed.load(Ordering::Acquire);
        if closed && renewals.is_empty() && sweeps.is_empty() && later.is_empty() && watchdog.is_empty() {
            return;
        }
        tokio::select! {
            Some(()) = renewals.next(), if !renewals.is_empty() => {}
            Some(unfinished) = sweeps.next(), if !sweeps.is_empty() => {
                // Outside the slots: many of them must not hold up the releases behind.
                later.extend(unfinished.map(|sweep| releaser.later(sweep)));
            }
            Some(()) = later.next(), if !later.is_empty() => {}
            Some(()) = listening.next(), if !listening.is_empty() => {}
            () = task.rest(&clock) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_lock_after_another_does_not_wake_the_task_each_time() {
        let task = BackgroundTask {
            runtime: Handle::current().id(),
            wake: Notify::new(),
            planned: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        };
        let (now, every) = (Instant::from_nanos(1_000_000), Duration::from_millis(250));
        let planned_after = |watched| {
            task.plan(None, watched, now, every);
            Instant::from_nanos(task.planned.load(Ordering::Acquire))
        };
        // Each look finds the lock of the moment given back already.
        for watched in 1..4 {
            assert_eq!(planned_after(watched), now.plus(every), "more locks may come");
        }
        assert_eq!(planned_after(3), Instant::FAR, "none came");
        assert_eq!(planned_after(4), now.plus(every), "it is awake again");
    }
}
