//! Gives back in the background what dropped guards and abandoned attempts left in the store.

mod sweep;
mod window;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub(crate) use sweep::Sweep;
use window::Window;

use crate::backend::LockBackend;
use crate::background::BackgroundTasks;
use crate::claim::Claim;
use crate::clock::Clock;
use crate::guarantees::ExpiryClock;
use crate::layers::unlock;
use crate::observer::Observer;
use crate::owner::OwnerId;
use crate::timers::Timers;
use crate::waiting::{bounded, sleep_until};
use crate::watchdog::unpanicked;

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
    /// Those that were tried already, and whose time has come again.
    again: VecDeque<Sweep>,
    window: Window,
    /// Everything pushed and not yet done, waiting or under way.
    pending: HashMap<OwnerId, Claim>,
}

impl Releaser {
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
    pub(crate) fn push(&self, mut sweep: Sweep) {
        let mut queue = self.queue();
        if queue.pending.insert(sweep.claim.owner, sweep.claim.clone()).is_none() {
            self.observer.meter().pending(1.0);
        }
        // Where nothing is answered it may take long until this is tried, and whoever is next can do no worse.
        let turn = sweep.turn.take_if(|_| queue.window.is_closing());
        queue.waiting.push_back(sweep);
        drop(queue);
        self.background.wake_all();
        drop(turn);
    }

    /// Takes the next sweep, to be [`run`](Releaser::run), or [kept for later](Releaser::later) if
    /// its release was acknowledged already. None as well if no more than those `under_way` may be.
    pub(crate) fn next(&self, under_way: usize) -> Option<Sweep> {
        let mut queue = self.queue();
        // Not when they are pushed: where a thread ends, not every clock can be read any more.
        for sweep in queue.waiting.iter_mut().rev().take_while(|sweep| !sweep.has_begun()) {
            sweep.begin(self.clock.now());
        }
        if under_way >= queue.window.size() {
            return None;
        }
        queue.waiting.pop_front().or_else(|| queue.again.pop_front())
    }

    /// Tries once to sweep. Ends when the store acknowledges it, or when the record must have run out by itself.
    /// What comes back is for [later](Releaser::later): a doubtful claim, or one that has to be tried again.
    pub(crate) fn run(&self, sweep: Sweep) -> impl Future<Output = Option<Sweep>> {
        // Before the first poll as well: a runtime may shut down between the two.
        let mut sweep = Unfinished { releaser: self, sweep: Some(sweep) };
        async move {
            let job = sweep.sweep.as_mut()?;
            let is_tried = self.attempt(job).await;
            if job.acknowledged && job.doubtful
                || !job.acknowledged && is_tried && job.failed(self.clock.now())
            {
                return sweep.sweep.take();
            }
            sweep.done();
            None
        }
    }

    /// Waits until a claim can be tried again, or no request of it can be on its way any more, and queues it.
    pub(crate) fn later(&self, sweep: Sweep) -> impl Future<Output = ()> {
        let mut sweep = Unfinished { releaser: self, sweep: Some(sweep) };
        async move {
            let Some(job) = sweep.sweep.as_mut() else { return };
            if job.is_for_later() {
                // The lost request can't land later than this: the store works on nothing for longer.
                sleep_until(&self.clock, self.clock.now().plus(job.op_timeout)).await;
                job.doubtful = false;
                job.acknowledged = false;
                job.begin(self.clock.now());
            } else if let Some(due) = job.next() {
                sleep_until(&self.clock, due).await;
            }
            // Dropping it queues it.
        }
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

    /// Whether it came to a try.
    async fn attempt(&self, job: &mut Sweep) -> bool {
        let limit = job.limit(self.clock.now()).or_else(|| {
            // Such a record stays as long as its connection.
            let ends_alone = self.backend.info().guarantees.expiry != ExpiryClock::Session;
            (!ends_alone && job.next().is_none()).then_some(job.op_timeout)
        });
        let Some(limit) = limit else { return false };
        let unlock = unpanicked(unlock(&*self.backend, &job.claim, job.token));
        let answer = bounded(&self.timers, limit, unlock).await;
        self.queue().window.note(answer.as_ref().err().is_none_or(|error| !error.is_retryable()));
        drop(job.turn.take());
        job.acknowledged |= answer.is_ok();
        true
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
            let mut queue = self.releaser.queue();
            // What was tried already stands back behind what was not.
            if sweep.next().is_some() {
                queue.again.push_back(sweep)
            } else {
                queue.waiting.push_front(sweep)
            }
            drop(queue);
            self.releaser.background.wake_all();
            drop(turn);
        }
    }
}
