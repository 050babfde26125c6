//! Gives back in the background what dropped guards and abandoned attempts left in the store.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::LockBackend;
use crate::background::BackgroundTasks;
use crate::backoff::Backoff;
use crate::claim::Claim;
use crate::client::Turn;
use crate::clock::{Clock, Instant};
use crate::fencing::FencingToken;
use crate::held::Held;
use crate::layers::unlock;
use crate::lease::Lease;
use crate::observer::Observer;
use crate::owner::OwnerId;
use crate::timers::Timers;
use crate::waiting::{bounded, sleep_until};
use crate::watchdog::unpanicked;

/// For how long stores keep a place in the queue that is not refreshed, though the ttl be shorter.
const PLACE: Duration = Duration::from_secs(5);

/// The queue of claims to sweep out of the store.
#[derive(Debug)]
pub(crate) struct Releaser {
    backend: Arc<dyn LockBackend>,
    clock: Clock,
    timers: Timers,
    background: Arc<BackgroundTasks>,
    observer: Arc<Observer>,
    queue: Mutex<Queue>,
    drained: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Sweep>,
    /// Everything pushed and not yet done, waiting or under way.
    pending: HashMap<OwnerId, Claim>,
}

/// One claim to remove from the store.
#[derive(Debug)]
pub(crate) struct Sweep {
    claim: Claim,
    /// Of what was granted, if it is known to have been.
    token: Option<FencingToken>,
    ttl: Duration,
    op_timeout: Duration,
    /// Whether a request of this claim may still be on its way: then one sweep is not enough.
    doubtful: bool,
    /// Whether the store acknowledged a release already, so that only the later sweep is left.
    acknowledged: bool,
    /// Passed on after the first sweep, however that ends: who comes next finds out for itself.
    turn: Option<Turn>,
}

impl Sweep {
    /// The release of a held lock.
    pub(crate) fn of(held: &Held, turn: Option<Turn>) -> Self {
        Self {
            claim: held.lease().claim.clone(),
            token: Some(held.lease().token),
            ttl: held.lease().ttl,
            op_timeout: held.timing().op_timeout,
            doubtful: held.doubtful(),
            acknowledged: false,
            turn,
        }
    }

    /// The withdrawal of an attempt of which nobody knows how far it got: perhaps into the queue.
    pub(crate) fn withdrawal(claim: Claim, ttl: Duration, op_timeout: Duration, turn: Option<Turn>) -> Self {
        let ttl = ttl.max(PLACE);
        Self { claim, token: None, ttl, op_timeout, doubtful: true, acknowledged: false, turn }
    }

    /// The withdrawal of a grant that came to nobody.
    pub(crate) fn of_grant(lease: Lease, ttl: Duration, op_timeout: Duration, turn: Option<Turn>) -> Self {
        let token = Some(lease.token);
        Self { token, ..Self::withdrawal(lease.claim, ttl, op_timeout, turn) }
    }

    /// Whether only the later sweep is left to do.
    pub(crate) const fn is_for_later(&self) -> bool {
        self.acknowledged && self.doubtful
    }

    /// The later sweep alone, after a release that the store acknowledged.
    pub(crate) const fn acknowledged(mut self) -> Self {
        self.acknowledged = true;
        self
    }
}

impl Releaser {
    /// Sweeps under way at once.
    pub(crate) const PARALLEL: usize = 64;

    pub(crate) fn new(
        backend: Arc<dyn LockBackend>,
        background: Arc<BackgroundTasks>,
        observer: Arc<Observer>,
    ) -> Self {
        Self {
            clock: backend.clock(),
            timers: Timers::new(),
            backend,
            background,
            observer,
            queue: Mutex::default(),
            drained: Notify::new(),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Queues a sweep. Never blocks, and works from any thread and outside a runtime.
    pub(crate) fn push(&self, sweep: Sweep) {
        let mut queue = self.queue();
        if queue.pending.insert(sweep.claim.owner, sweep.claim.clone()).is_none() {
            self.observer.meter().pending(1.0);
        }
        queue.waiting.push_back(sweep);
        drop(queue);
        self.background.wake_all();
    }

    /// Takes the next sweep, to be [`run`](Releaser::run), or [kept for later](Releaser::later) if
    /// its release was acknowledged already.
    pub(crate) fn next(&self) -> Option<Sweep> {
        self.queue().waiting.pop_front()
    }

    /// Sweeps until the store acknowledges it. Gives up when the record must have run out by itself.
    /// A doubtful claim comes back, to be [swept again later](Releaser::later).
    pub(crate) async fn run(&self, sweep: Sweep) -> Option<Sweep> {
        let mut sweep = Unfinished { releaser: self, sweep: Some(sweep) };
        let job = sweep.sweep.as_mut()?;
        let give_up = self.clock.now().plus(job.ttl).plus(job.op_timeout * 2);
        job.acknowledged |= self.until_acknowledged(job, give_up).await;
        if job.doubtful && job.acknowledged {
            return sweep.sweep.take();
        }
        sweep.done();
        None
    }

    /// Waits until no request of the claim can be on its way any more, and queues the last sweep.
    pub(crate) async fn later(&self, sweep: Sweep) {
        let mut sweep = Unfinished { releaser: self, sweep: Some(sweep) };
        let Some(job) = sweep.sweep.as_mut() else { return };
        // The lost request can't land later than this: the store works on nothing for longer.
        sleep_until(&self.clock, self.clock.now().plus(job.op_timeout)).await;
        job.doubtful = false;
        // Dropping it queues it.
    }

    /// What is not yet known to be gone.
    pub(crate) fn pending(&self) -> Vec<Claim> {
        self.queue().pending.values().cloned().collect()
    }

    /// Waits until nothing is pending.
    pub(crate) async fn drained(&self) {
        loop {
            let notified = self.drained.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.queue().pending.is_empty() {
                return;
            }
            notified.await;
        }
    }

    async fn until_acknowledged(&self, job: &mut Sweep, give_up: Instant) -> bool {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            let unlock = unpanicked(unlock(&*self.backend, &job.claim, job.token));
            let answer = bounded(&self.timers, job.op_timeout, unlock).await;
            drop(job.turn.take());
            if answer.is_ok() {
                return true;
            }
            let again = self.clock.now().plus(backoff.pause());
            if again >= give_up {
                return false;
            }
            sleep_until(&self.clock, again).await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Releaser {
    fn drop(&mut self) {
        // Nobody is left to do it: their ttls will.
        for _ in 0..self.queue().pending.len() {
            self.observer.meter().pending(-1.0);
        }
    }
}

/// Puts a sweep back into the queue if it is dropped before its end, as when its runtime shuts down.
struct Unfinished<'a> {
    releaser: &'a Releaser,
    sweep: Option<Sweep>,
}

impl Unfinished<'_> {
    fn done(mut self) {
        if let Some(sweep) = self.sweep.take() {
            let mut queue = self.releaser.queue();
            if queue.pending.remove(&sweep.claim.owner).is_some() {
                self.releaser.observer.meter().pending(-1.0);
            }
            let drained = queue.pending.is_empty();
            drop(queue);
            if drained {
                self.releaser.drained.notify_waiters();
            }
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(mut sweep) = self.sweep.take() {
            let turn = sweep.turn.take();
            self.releaser.queue().waiting.push_front(sweep);
            self.releaser.background.wake_all();
            drop(turn);
        }
    }
}
