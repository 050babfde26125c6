//! How a call gets its lock: one try, a place in line, or contending in the store.

use std::sync::Arc;
use std::time::Duration;

use super::LockClient;
use super::attempt::Attempt;
use super::inner::shut_down;
use super::turns::{Called, Place, Queued, Turn};
use crate::claim::Claim;
use crate::clock::Deadline;
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::guard::LockGuard;
use crate::held::Held;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::metadata::Metadata;
use crate::options::{LockOptions, Queueing, Timing, WaitPolicy};
use crate::outcome::{Busy, TryLock};
use crate::releaser::Sweep;
use crate::request::LockRequest;
use crate::waiting::{Wait, attempt, bounded, sleep_until, wait_timeout};

/// One checked call: what to ask for, and the times that follow from its options.
pub(super) struct Job {
    pub(super) request: LockRequest,
    pub(super) timing: Timing,
}

/// A lock that was granted, not yet in a guard.
pub(super) struct Grant {
    pub(super) lease: Lease,
    pub(super) timing: Timing,
    pub(super) metadata: Metadata,
    /// Whether some request of the attempt was never answered.
    pub(super) doubtful: bool,
}

impl LockClient {
    pub(super) fn job(&self, key: LockKey, options: &LockOptions, queue: bool) -> Result<Job> {
        self.inner.ready()?;
        let info = self.inner.backend.info();
        let named = |error: Error| self.inner.context(error, Operation::Lock, &key);
        let timing = options.timing(&info.guarantees).map_err(named)?;
        if options.queue == Queueing::Strict && !info.supports.queue {
            return Err(named(Error::new(
                ErrorKind::Unsupported,
                "this store keeps no queue, so it can't serve all processes strictly in order; use `Queueing::Auto`",
            )));
        }
        let request = LockRequest::new(Claim::mint(key), timing.ttl)
            .queue(queue && info.supports.queue && options.queue != Queueing::Never)
            .metadata(options.metadata.as_ref().unwrap_or(&self.inner.options.metadata).clone())
            .margin(options.margin);
        Ok(Job { request, timing })
    }

    /// Takes the lock, waiting as the options say.
    pub(super) async fn take(&self, key: LockKey, options: &LockOptions) -> Result<LockGuard> {
        let (queue, patience) = match options.wait {
            WaitPolicy::No => (false, Some(Duration::ZERO)),
            WaitPolicy::UpTo(patience) => (!patience.is_zero(), Some(patience)),
            WaitPolicy::Forever => (true, None),
        };
        let job = self.job(key, options, queue)?;
        if !queue {
            let request = job.request.clone();
            return self.try_once(job).await?.map_err(|busy| self.timed_out(&request, Some(busy)));
        }
        let deadline =
            patience.map_or(Deadline::NEVER, |patience| Deadline::after(&self.inner.clock, patience));
        if options.queue == Queueing::Strict {
            return self.contend(job, None, deadline).await;
        }
        match self.inner.turns.queue(&job.request).map_err(|e| self.context(e, Operation::Lock, &job))? {
            Queued::Now(turn) => self.contend(job, Some(turn), deadline).await,
            Queued::Later(place) => self.stand_in_line(job, place, deadline).await,
        }
    }

    /// Takes the lock if it is free.
    pub(super) async fn try_take(&self, key: LockKey, options: &LockOptions) -> Result<Option<LockGuard>> {
        let job = self.job(key, options, false)?;
        Ok(self.try_once(job).await?.ok())
    }

    /// One plain try, which passes no waiter of this client.
    pub(super) async fn try_once(&self, job: Job) -> Result<Result<LockGuard, Busy>> {
        let Job { request, timing } = job;
        let key = &request.claim.key;
        if let Some(obstacle) = self.inner.turns.awaited(key) {
            return obstacle.map(Err).map_err(|error| self.inner.context(error, Operation::TryLock, key));
        }
        let armed = Attempt::new(&self.inner, request.claim.clone(), timing.ttl, timing.op_timeout, None);
        match attempt(&*self.inner.backend, &self.inner.timers, &request, timing.op_timeout).await {
            Ok(TryLock::Acquired(lease)) => {
                let turn = self.inner.turns.try_take(key);
                let grant = Grant { lease, timing, metadata: request.metadata, doubtful: false };
                let guard = self.guard(grant, turn)?;
                drop(armed.disarm());
                Ok(Ok(guard))
            }
            Ok(TryLock::Busy(busy)) => {
                if !busy.is_doubtful {
                    drop(armed.disarm());
                }
                Ok(Err(busy))
            }
            Err(error) => {
                if error.effect() == Effect::None {
                    drop(armed.disarm());
                }
                Err(error)
            }
        }
    }

    /// Waits for this client's turn, which the holder before may pass on together with the lock.
    pub(super) async fn stand_in_line(
        &self,
        mut job: Job,
        mut place: Place,
        deadline: Deadline,
    ) -> Result<LockGuard> {
        let called = tokio::select! {
            biased;
            called = self.called(&mut place, &job.request.claim.key, job.timing.ttl) => called?,
            () = sleep_until(&self.inner.clock, deadline.instant()) => {
                let busy = self.inner.turns.obstacle(&job.request.claim.key)?;
                return Err(self.timed_out(&job.request, busy));
            }
        };
        let turn = match called {
            Called::Contend(turn) => {
                // A queue in the store keeps the order by itself.
                if !job.request.queue
                    && let Some(pause) = turn.stand_back()
                {
                    let until = self.inner.clock.now().plus(pause).min(deadline.instant());
                    sleep_until(&self.inner.clock, until).await;
                }
                turn
            }
            Called::Granted(handed_over) => {
                let Some((lease, turn)) = handed_over.accept() else { return Err(shut_down()) };
                if lease.valid_until > self.inner.clock.now() {
                    let Job { timing, request } = job;
                    let grant = Grant { lease, timing, metadata: request.metadata, doubtful: false };
                    return self.guard(grant, Some(turn));
                }
                // It took too long to get here.
                let Timing { ttl, op_timeout, .. } = job.timing;
                self.inner.releaser.push(Sweep::of_grant(lease, ttl, op_timeout, None));
                turn
            }
        };
        // A hand-over that failed may still be sweeping the first claim.
        job.request.claim = Claim::mint(job.request.claim.key);
        self.contend(job, Some(turn), deadline).await
    }

    /// Contends for the lock in the store.
    pub(super) async fn contend(
        &self,
        job: Job,
        turn: Option<Turn>,
        deadline: Deadline,
    ) -> Result<LockGuard> {
        let Job { request, timing } = job;
        let armed = Attempt::new(&self.inner, request.claim.clone(), timing.ttl, timing.op_timeout, turn);
        let backend = &*self.inner.backend;
        if backend.info().supports.native_wait {
            let lease = self.inner.unless_shut_down(backend.lock(&request, deadline)).await?;
            let grant = Grant { lease, timing, metadata: request.metadata, doubtful: false };
            return self.guard_of(grant, armed);
        }
        let mut wait =
            Wait::new(backend, &self.inner.timers, &request, deadline).op_timeout(timing.op_timeout);
        let note = |answer: Result<&Busy, &Error>| {
            if let Some(turn) = &armed.turn {
                turn.note(answer);
            }
        };
        let lease = match self.inner.unless_shut_down(wait.run(note)).await {
            Ok(lease) => lease,
            Err(error) => {
                // Out of the queue before the caller goes on: it may end the program next.
                let answered = error.is_wait_timeout() && !wait.had_trouble();
                if answered && self.leave_queue(&request.claim, timing).await {
                    drop(armed.disarm());
                }
                return Err(error);
            }
        };
        let doubtful = wait.had_trouble();
        self.guard_of(Grant { lease, timing, metadata: request.metadata, doubtful }, armed)
    }

    /// Withdraws a claim of which every request was answered; `false` leaves it to the background task.
    async fn leave_queue(&self, claim: &Claim, timing: Timing) -> bool {
        const PATIENCE: Duration = Duration::from_millis(500);
        bounded(&self.inner.timers, timing.op_timeout.min(PATIENCE), self.inner.backend.unlock(claim))
            .await
            .is_ok()
    }

    /// The guard of what an attempt was granted.
    fn guard_of(&self, grant: Grant, mut armed: Attempt<'_>) -> Result<LockGuard> {
        let guard = self.guard(grant, armed.turn.take())?;
        drop(armed.disarm());
        Ok(guard)
    }

    /// The guard of a grant, unless the client was shut down meanwhile; then the lock is given back.
    pub(super) fn guard(&self, grant: Grant, turn: Option<Turn>) -> Result<LockGuard> {
        let Grant { lease, timing, metadata, doubtful } = grant;
        let timing = timing.within(lease.ttl);
        let doubtful = doubtful || lease.is_doubtful;
        let held = Arc::new(Held::new(lease, timing, metadata, Arc::clone(&self.inner.observer), doubtful));
        held.announce_grant();
        if let Some(turn) = turn {
            turn.note_granted(&held);
            held.keep_turn(turn);
        }
        let guard = LockGuard::new(held, Arc::clone(&self.inner));
        // After it is under watch: a shutdown from now on finds it there.
        if self.inner.is_shut_down() {
            return Err(shut_down());
        }
        Ok(guard)
    }

    pub(super) fn timed_out(&self, request: &LockRequest, busy: Option<Busy>) -> Error {
        wait_timeout(request, busy).on_backend(self.info().name)
    }

    pub(super) fn context(&self, error: Error, operation: Operation, job: &Job) -> Error {
        self.inner.context(error, operation, &job.request.claim.key)
    }
}
