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
pub(crate) struct Drivers {
    running: Mutex<Vec<Arc<Driver>>>,
    closed: AtomicBool,
}

/// One background task, as others see it.
#[derive(Debug)]
pub(crate) struct Driver {
    runtime: Id,
    wake: Notify,
    /// When it will look again by itself; written under the schedule's lock.
    planned: AtomicU64,
    idle: AtomicBool,
}

impl Drivers {
    /// Starts the background task in the present runtime unless it runs there already.
    pub(crate) fn ensure(self: &Arc<Self>, watchdog: &Arc<Watchdog>, releaser: &Arc<Releaser>) -> Result<()> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::new(
                ErrorKind::Misconfigured,
                "no tokio runtime is running here; call this from within one",
            )
        })?;
        let mut running = self.running();
        if running.iter().any(|driver| driver.runtime == runtime.id()) {
            return Ok(());
        }
        let driver = Arc::new(Driver {
            runtime: runtime.id(),
            wake: Notify::new(),
            planned: AtomicU64::new(0),
            idle: AtomicBool::new(false),
        });
        running.push(Arc::clone(&driver));
        drop(running);
        let leave = Leave { drivers: Arc::clone(self), driver };
        runtime.spawn(drive(leave, Arc::clone(watchdog), Arc::clone(releaser)));
        Ok(())
    }

    /// Wakes every task that would look only after `due`.
    pub(crate) fn wake_before(&self, due: Instant) {
        for driver in self.running().iter() {
            if due.as_nanos() < driver.planned.load(Ordering::Acquire) {
                driver.wake.notify_one();
            }
        }
    }

    /// Wakes every task.
    pub(crate) fn wake_all(&self) {
        for driver in self.running().iter() {
            driver.wake.notify_one();
        }
    }

    /// Lets the tasks end when nothing is left to do.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake_all();
    }

    fn running(&self) -> MutexGuard<'_, Vec<Arc<Driver>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver {
    /// Plans the next look: when something is due, and meanwhile as often as the clock wants checking.
    ///
    /// When nothing is under watch the task looks once more before it sleeps for good: a program that
    /// takes one lock after another would otherwise wake it each time.
    pub(crate) fn plan(&self, due: Option<Instant>, now: Instant, check_every: Duration) {
        let was_idle = self.idle.swap(due.is_none(), Ordering::AcqRel);
        let check = now.plus(check_every);
        let planned = match due {
            Some(due) => due.min(check),
            None if was_idle => Instant::FAR,
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
    drivers: Arc<Drivers>,
    driver: Arc<Driver>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.drivers.running().retain(|driver| !Arc::ptr_eq(driver, &self.driver));
    }
}

async fn drive(leave: Leave, watchdog: Arc<Watchdog>, releaser: Arc<Releaser>) {
    let driver = Arc::clone(&leave.driver);
    let clock = releaser.clock();
    let mut renewals = FuturesUnordered::new();
    let mut sweeps = FuturesUnordered::new();
    loop {
        renewals.extend(watchdog.tick(&driver).into_iter().map(|batch| watchdog.renew(batch)));
        while sweeps.len() < Releaser::PARALLEL
            && let Some(sweep) = releaser.next()
        {
            sweeps.push(releaser.run(sweep));
        }
        let closed = leave.drivers.closed.load(Ordering::Acquire);
        if closed && renewals.is_empty() && sweeps.is_empty() && watchdog.is_empty() {
            return;
        }
        tokio::select! {
            Some(()) = renewals.next(), if !renewals.is_empty() => {}
            Some(()) = sweeps.next(), if !sweeps.is_empty() => {}
            () = driver.rest(&clock) => {}
        }
    }
}
