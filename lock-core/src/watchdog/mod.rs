//! Renews held locks in batches, and declares them lost when their time is over.

mod schedule;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};

use self::schedule::Schedule;
use crate::backend::LockBackend;
use crate::background::{BackgroundTask, BackgroundTasks};
use crate::clock::{Clock, Instant};
use crate::error::{Error, ErrorKind, Result};
use crate::held::Held;
use crate::lease::Lease;
use crate::outcome::Renewal;
use crate::timers::Timers;
use crate::waiting::{bounded, sleep_until};

/// A lock that is given back before this is not listened for. It counts from the store's answer: how long that took
/// says nothing of how long the lock will be held.
const LISTEN_AFTER: Duration = Duration::from_millis(200);
/// Renewals under way at once on a store that can't batch.
const PARALLEL: usize = 16;

/// The one renewal scheduler of a client.
#[derive(Debug)]
pub(crate) struct Watchdog {
    backend: Arc<dyn LockBackend>,
    clock: Clock,
    timers: Timers,
    schedule: Mutex<Schedule>,
    /// Locks whose store announces losses, not yet listened for, and since when they are held.
    unheard: Mutex<Vec<(Arc<Held>, Instant)>>,
    background: Arc<BackgroundTasks>,
}

/// Locks of one ttl to renew together.
#[derive(Debug)]
pub(crate) struct Batch {
    ttl: Duration,
    locks: Vec<Arc<Held>>,
}

impl Watchdog {
    pub(crate) fn new(backend: Arc<dyn LockBackend>, background: Arc<BackgroundTasks>) -> Self {
        Self {
            clock: backend.clock(),
            timers: Timers::new(),
            backend,
            schedule: Mutex::default(),
            unheard: Mutex::default(),
            background,
        }
    }

    /// Starts renewing a lock and watching its time.
    pub(crate) fn watch(&self, held: &Arc<Held>) {
        if self.backend.info().supports.loss_push && held.timing().renew_every.is_some() {
            // Nobody is woken for it: most locks are given back before the next look at the time.
            self.unheard().push((Arc::clone(held), self.clock.now()));
        }
        let mut schedule = self.schedule();
        // A moment ago; another reading would be a good part of what a lock in memory costs.
        let now = held.granted_at();
        let due = schedule.insert(held, now);
        self.background.wake_before(due.min(now.plus(schedule.check_every())));
    }

    /// Stops for good: no renewal of this lock starts after this returns.
    pub(crate) fn forget(&self, held: &Held) {
        self.schedule().remove(held);
    }

    /// Stops watching all locks, and says which they were.
    pub(crate) fn forget_all(&self) -> Vec<Arc<Held>> {
        self.schedule().clear()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.schedule().is_empty()
    }

    /// Does what is due by the clock; `task` is told when to come again.
    pub(crate) fn tick(&self, task: &BackgroundTask) -> Vec<Batch> {
        let now = self.clock.now();
        let mut schedule = self.schedule();
        let tick = schedule.tick(now);
        task.plan(tick.next, schedule.watched(), now, schedule.check_every());
        drop(schedule);
        batches(tick.renew, self.backend.info().renew_batch)
    }

    /// The locks to listen for from now on, each to be passed to [`Watchdog::listen`]: those that have been
    /// held for a while, since listening costs more than a short hold.
    pub(crate) fn newly_held(&self) -> Vec<Arc<Held>> {
        let mut unheard = self.unheard();
        if unheard.is_empty() {
            return Vec::new();
        }
        let now = self.clock.now();
        unheard.retain(|(held, _)| held.state().is_valid());
        let for_long = unheard.extract_if(.., |(_, since)| now.since(*since) >= LISTEN_AFTER);
        for_long.map(|(held, _)| held).collect()
    }

    /// Renews the lock at once whenever the store hints that it may be lost: the answer tells.
    pub(crate) async fn listen(&self, held: Arc<Held>) {
        let lease = held.lease_now();
        loop {
            let hint = tokio::select! {
                hint = unpanicked(self.backend.watch_loss(&lease)) => hint,
                () = held.ended() => return,
            };
            if hint.is_err() {
                // Renewals go on, and find a loss a little later.
                return;
            }
            self.schedule().renew_now(&held, self.clock.now());
            self.background.wake_all();
            // A store that hints without end must not be asked without end.
            sleep_until(&self.clock, self.clock.now().plus(held.timing().op_timeout)).await;
        }
    }

    /// Sends a batch and notes the answers. Never fails: trouble ends in a repeat or a loss.
    pub(crate) async fn renew(&self, batch: Batch) {
        if self.backend.info().supports.batch_renew {
            self.renew_together(&batch).await;
        } else {
            stream::iter(&batch.locks).for_each_concurrent(PARALLEL, |held| self.renew_alone(held)).await;
        }
    }

    async fn renew_together(&self, batch: &Batch) {
        let Some(limit) = batch.locks.iter().map(|held| held.timing().op_timeout).min() else { return };
        let leases: Vec<Lease> = batch.locks.iter().map(|held| held.lease_now()).collect();
        let sent = self.clock.now();
        let renewals =
            bounded(&self.timers, limit, unpanicked(self.backend.renew_many(&leases, batch.ttl).map(Ok)))
                .await;
        let mut schedule = self.schedule();
        match renewals {
            Ok(renewals) if renewals.len() == leases.len() => {
                for (held, renewal) in batch.locks.iter().zip(renewals) {
                    self.note(&mut schedule, held, renewal, sent);
                }
            }
            Ok(_) => self.note_all_failed(&mut schedule, batch, ErrorKind::Other),
            Err(error) => self.note_all_failed(&mut schedule, batch, error.kind()),
        }
    }

    async fn renew_alone(&self, held: &Arc<Held>) {
        if !held.state().is_valid() {
            return;
        }
        let lease = held.lease_now();
        let sent = self.clock.now();
        let renewal = bounded(
            &self.timers,
            held.timing().op_timeout,
            unpanicked(self.backend.renew(&lease, lease.ttl)),
        )
        .await;
        self.note(&mut self.schedule(), held, renewal, sent);
    }

    fn note(&self, schedule: &mut Schedule, held: &Held, renewal: Result<Renewal>, sent: Instant) {
        match renewal {
            Ok(Renewal::Renewed { valid_until }) => {
                if held.extend(valid_until) {
                    schedule.renewed(held, sent);
                } else {
                    schedule.remove(held);
                }
            }
            Ok(Renewal::Lost(reason)) => {
                schedule.remove(held);
                held.lose(reason);
            }
            Err(error) => schedule.failed(held, error.kind(), self.clock.now()),
        }
    }

    fn note_all_failed(&self, schedule: &mut Schedule, batch: &Batch, kind: ErrorKind) {
        for held in &batch.locks {
            schedule.failed(held, kind, self.clock.now());
        }
    }

    fn unheard(&self) -> MutexGuard<'_, Vec<(Arc<Held>, Instant)>> {
        self.unheard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Groups locks by ttl, since a batch has one, of `most` locks at most.
fn batches(mut locks: Vec<Arc<Held>>, most: usize) -> Vec<Batch> {
    locks.sort_by_key(|held| held.lease().ttl);
    locks
        .chunk_by(|a, b| a.lease().ttl == b.lease().ttl)
        .flat_map(|group| group.chunks(most.max(1)))
        .map(|chunk| Batch { ttl: chunk[0].lease().ttl, locks: chunk.to_vec() })
        .collect()
}

/// Turns a backend's panic into an error: it must not end the renewal of other locks.
pub(crate) async fn unpanicked<T>(operation: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(operation).catch_unwind().await.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Other,
            "the backend panicked; see its message, and report it to the backend's authors",
        ))
    })
}
