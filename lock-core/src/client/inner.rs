//! What all clones of a client, and its guards, share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::attempt::Attempt;
use super::handed_over::HandedOver;
use super::options::ClientOptions;
use super::turns::{Turn, Turns};
use crate::backend::LockBackend;
use crate::background::BackgroundTasks;
use crate::claim::Claim;
use crate::clock::Clock;
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::held::Held;
use crate::key::LockKey;
use crate::layers::unlock;
use crate::lease::Lease;
use crate::meter::Meter;
use crate::observer::Observer;
use crate::outcome::{LostReason, Release, TryLock};
use crate::releaser::{Releaser, Sweep};
use crate::request::LockRequest;
use crate::timers::Timers;
use crate::waiting::bounded;
use crate::watchdog::Watchdog;

#[derive(Debug)]
pub(crate) struct ClientInner {
    pub(crate) backend: Arc<dyn LockBackend>,
    pub(crate) clock: Clock,
    pub(crate) timers: Timers,
    /// Apart from those of operations: theirs are short, and a timer that is put off costs less than one that comes sooner.
    pub(super) patience: Timers,
    pub(crate) options: ClientOptions,
    pub(crate) observer: Arc<Observer>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) releaser: Arc<Releaser>,
    background: Arc<BackgroundTasks>,
    shut_down: AtomicBool,
    shutting_down: Notify,
    attempts: AtomicUsize,
    attempts_ended: Notify,
}

impl ClientInner {
    pub(super) fn new(backend: Arc<dyn LockBackend>, options: ClientOptions) -> Self {
        let background = Arc::new(BackgroundTasks::default());
        let observer = Arc::new(Observer::new(backend.clock(), Meter::new(backend.info().name)));
        Self {
            clock: backend.clock(),
            timers: Timers::new(),
            patience: Timers::new(),
            turns: Turns::new(options.max_waiters),
            watchdog: Arc::new(Watchdog::new(Arc::clone(&backend), Arc::clone(&background))),
            releaser: Arc::new(Releaser::new(
                Arc::clone(&backend),
                Arc::clone(&background),
                Arc::clone(&observer),
            )),
            observer,
            background,
            backend,
            options,
            shut_down: AtomicBool::new(false),
            shutting_down: Notify::new(),
            attempts: AtomicUsize::new(0),
            attempts_ended: Notify::new(),
        }
    }

    /// Whether new work is refused.
    pub(super) fn is_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::Acquire)
    }

    /// Counts an attempt as under way, so that a shutdown waits for what it leaves.
    pub(super) fn attempt_begins(&self) {
        self.attempts.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts an attempt as over.
    pub(super) fn attempt_ends(&self) {
        if self.attempts.fetch_sub(1, Ordering::AcqRel) == 1 && self.is_shut_down() {
            self.attempts_ended.notify_waiters();
        }
    }

    /// Waits until no attempt is under way and nothing is left to release.
    pub(super) async fn drained(&self) {
        loop {
            let ended = self.attempts_ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.attempts.load(Ordering::Acquire) == 0 {
                break;
            }
            ended.await;
        }
        self.releaser.drained().await;
    }

    /// Fails after shutdown, and makes sure that the background task runs.
    pub(super) fn ready(&self) -> Result<()> {
        if self.is_shut_down() {
            return Err(shut_down());
        }
        self.background.ensure(&self.watchdog, &self.releaser)
    }

    /// Refuses new work from now on, and sends those who wait away.
    pub(super) fn refuse_work(&self) {
        self.shut_down.store(true, Ordering::Release);
        self.turns.close();
        self.shutting_down.notify_waiters();
    }

    /// Runs `work` until the client is shut down.
    pub(super) async fn unless_shut_down<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let shutting_down = self.shutting_down.notified();
        tokio::pin!(shutting_down);
        shutting_down.as_mut().enable();
        if self.is_shut_down() {
            return Err(shut_down());
        }
        tokio::select! {
            biased;
            () = shutting_down => Err(shut_down()),
            done = work => done,
        }
    }

    /// Makes sure that the background task runs, also after shutdown.
    pub(super) fn drive(&self) -> Result<()> {
        self.background.ensure(&self.watchdog, &self.releaser)?;
        self.background.wake_all();
        Ok(())
    }

    /// Names backend, operation and key in an error.
    pub(crate) fn context(&self, error: Error, operation: Operation, key: &LockKey) -> Error {
        error.on_backend(self.backend.info().name).in_operation(operation).for_key(key)
    }

    /// Gives a held lock back, or passes it on to the next contender of this client.
    ///
    /// # Cancel safety
    /// When dropped, the background task goes on.
    pub(crate) async fn release(&self, held: &Arc<Held>) -> Result<Release> {
        let turn = held.take_turn();
        if self.backend.info().supports.hand_over
            && let Some(next) = turn.as_ref().and_then(|turn| turn.successor(self.clock.now()))
        {
            return self.hand_over(held, turn, next).await;
        }
        self.unlock(held, turn).await
    }

    async fn unlock(&self, held: &Arc<Held>, turn: Option<Turn>) -> Result<Release> {
        let mut pending = Pending { client: self, sweep: Some(Sweep::of(held, turn)) };
        let limit = held.timing().op_timeout;
        let Lease { claim, token, .. } = held.lease();
        let unlock = || bounded(&self.timers, limit, unlock(&*self.backend, claim, Some(*token)));
        let mut answer = unlock().await;
        if let Err(error) = &answer
            && error.is_retryable()
        {
            let landed = error.effect() == Effect::Unknown;
            answer = unlock().await.map(|release| match release {
                // The first request did it, and only its answer was lost.
                Release::NotHeld(LostReason::Expired) if landed && self.clock.now() < held.valid_until() => {
                    Release::Released
                }
                release => release,
            });
        }
        if answer.is_ok() {
            // The turn goes on now; a claim in doubt is swept once more later.
            let swept = pending.sweep.take();
            if held.doubtful() {
                drop(swept);
                self.releaser.push(Sweep::of(held, None).acknowledged());
            }
        }
        answer.map_err(|error| self.context(error, Operation::Unlock, &claim.key))
    }

    /// After a hand-over without an answer: withdraws what was passed on; if nothing was, gives the lock back.
    async fn take_back(&self, held: &Arc<Held>, next: &Claim, limit: Duration) -> Result<Release> {
        match bounded(&self.timers, limit, self.backend.unlock(next)).await? {
            // It landed, and only its answer was lost.
            Release::Released => Ok(Release::Released),
            Release::NotHeld(_) => {
                let Lease { claim, token, .. } = held.lease();
                bounded(&self.timers, limit, unlock(&*self.backend, claim, Some(*token))).await
            }
        }
    }

    async fn hand_over(&self, held: &Arc<Held>, turn: Option<Turn>, next: LockRequest) -> Result<Release> {
        let limit = held.timing().op_timeout;
        // Declared in this order so that in doubt the old claim is swept before the new one.
        let new = Attempt::new(self, next.claim.clone(), next.ttl, limit, turn);
        let mut old = Pending { client: self, sweep: Some(Sweep::of(held, None)) };
        let answer = bounded(&self.timers, limit, self.backend.hand_over(&held.lease_now(), &next)).await;
        match answer {
            Err(error) if error.kind() == ErrorKind::NotReplicated => {
                // The old claim is over. The new one is withdrawn, and then its turn goes on.
                old.sweep = held.doubtful().then(|| Sweep::of(held, None).acknowledged());
                Ok(Release::Released)
            }
            Err(error) if error.is_retryable() && error.effect() == Effect::Unknown => {
                let answer = self.take_back(held, &next.claim, limit).await;
                if answer.is_ok() {
                    old.sweep = held.doubtful().then(|| Sweep::of(held, None).acknowledged());
                }
                answer.map_err(|_| self.context(error, Operation::HandOver, &next.claim.key))
            }
            Err(error) => Err(self.context(error, Operation::HandOver, &next.claim.key)),
            Ok(TryLock::Acquired(lease)) => {
                old.sweep = held.doubtful().then(|| Sweep::of(held, None).acknowledged());
                if let Some(turn) = new.disarm() {
                    HandedOver::pass(turn, lease, limit, &self.releaser, self.clock.now());
                }
                Ok(Release::Released)
            }
            Ok(TryLock::Busy(_)) => {
                old.sweep = None;
                let turn = new.disarm();
                self.unlock(held, turn).await
            }
        }
    }
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        self.background.close();
    }
}

pub(super) fn shut_down() -> Error {
    Error::new(ErrorKind::Shutdown, "the client was shut down; make a new one")
}

/// Hands a release to the background task when dropped before it was acknowledged.
struct Pending<'a> {
    client: &'a ClientInner,
    sweep: Option<Sweep>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(sweep) = self.sweep.take() {
            self.client.releaser.push(sweep);
        }
    }
}
