//! The one loop that waits for a lock.

use std::time::Duration;

use tokio::time::sleep;

use crate::backend::LockBackend;
use crate::backoff::{Backoff, jittered};
use crate::clock::{Clock, Deadline, Instant};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::lease::Lease;
use crate::outcome::{Busy, TryLock};
use crate::request::LockRequest;
use crate::timers::Timers;

/// Longest time between two attempts of a waiter that nothing wakes.
const POLL_MOST: Duration = Duration::from_secs(1);
/// The same where the store keeps the waiter's place and tells it when its turn comes: the poll only makes
/// up for a hint that was lost.
const POLL_MOST_IN_PLACE: Duration = Duration::from_secs(10);
/// Shortest such time.
const POLL_LEAST: Duration = Duration::from_millis(50);
/// Timers run on a clock that stops while the machine is suspended; look at the real one this often.
const CLOCK_CHECK: Duration = Duration::from_millis(250);
/// A holder that is about to expire is asked after again this much later than its expiry.
const EXPIRY_SLACK: Duration = Duration::from_millis(1);
/// Least time for one attempt, however short the caller's patience.
const ATTEMPT_LEAST: Duration = Duration::from_millis(250);
/// What a lease must have left to be worth handing out.
const LEAST_VALIDITY: Duration = Duration::from_millis(1);

/// Takes the lock, waiting for it until `deadline`: the provided body of [`LockBackend::lock`].
///
/// Tries, then waits for the backend's hint, for the holder's expiry or for a jittered poll,
/// whichever comes first, and tries again. The poll comes once a second at least; where the store keeps
/// the claim's place in its queue and wakes it, ever more rarely, down to a third of the ttl or every
/// ten seconds. Store trouble is retried with a growing pause until the
/// deadline, but not for longer than the ttl in a row.
///
/// # Errors
/// `WaitTimeout` with what is known of the holder; `TooSlow` when grants arrive without validity
/// left; errors of the backend that a retry can't cure, or that lasted.
///
/// # Cancel safety
/// Not by itself: a dropped call may leave the claim in the store. [`LockClient`](crate::LockClient)
/// withdraws it.
pub async fn acquire<B>(backend: &B, request: &LockRequest, deadline: Deadline) -> Result<Lease>
where
    B: LockBackend + ?Sized,
{
    Wait::new(backend, &Timers::new(), request, deadline).run(|_| ()).await
}

/// One waiter's loop.
pub(crate) struct Wait<'a, B: ?Sized> {
    backend: &'a B,
    timers: &'a Timers,
    request: &'a LockRequest,
    deadline: Deadline,
    clock: Clock,
    op_timeout: Duration,
    last_busy: Option<Busy>,
    polls: Backoff,
    poll_most: Duration,
    trouble: Backoff,
    trouble_since: Option<Instant>,
    had_trouble: bool,
}

impl<'a, B> Wait<'a, B>
where
    B: LockBackend + ?Sized,
{
    pub(crate) fn new(
        backend: &'a B,
        timers: &'a Timers,
        request: &'a LockRequest,
        deadline: Deadline,
    ) -> Self {
        let op_timeout = op_timeout(request.ttl);
        let info = backend.info();
        let is_kept =
            request.queue && info.supports.queue && info.supports.push && info.guarantees.keeps_places;
        let poll_most =
            (request.ttl / 3).clamp(POLL_LEAST, if is_kept { POLL_MOST_IN_PLACE } else { POLL_MOST });
        Self {
            backend,
            timers,
            request,
            deadline,
            clock: backend.clock(),
            op_timeout,
            last_busy: None,
            polls: Backoff::new(POLL_MOST.min(poll_most), poll_most),
            poll_most,
            trouble: Backoff::new(Duration::from_millis(20), op_timeout.max(Duration::from_millis(20))),
            trouble_since: None,
            had_trouble: false,
        }
    }

    /// Bounds each attempt by `limit` instead of the default.
    pub(crate) fn op_timeout(mut self, limit: Duration) -> Self {
        self.op_timeout = limit;
        self
    }

    /// Runs the loop; `observe` sees every answer but the grant.
    pub(crate) async fn run(&mut self, mut observe: impl FnMut(Result<&Busy, &Error>)) -> Result<Lease> {
        loop {
            // A silent store must not outlast the caller's patience by much.
            let left = self.deadline.remaining(&self.clock).unwrap_or(Duration::MAX);
            let limit = self.op_timeout.min(left.max(ATTEMPT_LEAST));
            match attempt(self.backend, self.timers, self.request, limit).await {
                Ok(TryLock::Acquired(lease)) => return Ok(lease),
                Ok(TryLock::Busy(busy)) => {
                    self.trouble.reset();
                    self.trouble_since = None;
                    self.had_trouble |= busy.is_doubtful;
                    observe(Ok(&busy));
                    if self.deadline.is_past(&self.clock) {
                        return Err(self.wait_timeout(Some(busy)));
                    }
                    self.wait_for_release(&busy).await;
                    self.last_busy = Some(busy);
                }
                Err(error) if error.is_retryable() => {
                    // Hints may have been lost with whatever else was.
                    self.polls.reset();
                    observe(Err(&error));
                    self.ride_out(error).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether some attempt was not answered, so that it may still land.
    pub(crate) const fn had_trouble(&self) -> bool {
        self.had_trouble
    }

    async fn wait_for_release(&mut self, busy: &Busy) {
        let longest = self.longest_wait(busy);
        let until = self.deadline.instant().min(self.clock.now().plus(longest));
        let hint = async {
            if self.backend.watch_release(&self.request.claim, busy).await.is_err() {
                // A broken hint must not turn the loop into a busy one: wait by time alone.
                std::future::pending::<()>().await;
            }
        };
        let is_woken = tokio::select! {
            () = hint => true,
            () = sleep_until(&self.clock, until) => false,
        };
        if is_woken {
            self.polls.reset();
        }
    }

    /// Until the holder expires or a poll is due. A queued claim is refreshed at least every ttl/3.
    ///
    /// In a place that is kept, whoever is next polls more and more rarely, so that a lost hint costs it
    /// about as long again as it has waited; and whoever has others in front begins with the longest pause.
    fn longest_wait(&mut self, busy: &Busy) -> Duration {
        let poll = if busy.waiter_ahead { jittered(self.poll_most) } else { self.polls.pause() };
        match busy.free_in {
            Some(left) => poll.min(left + EXPIRY_SLACK),
            None => poll,
        }
    }

    /// Pauses after a store error, or returns it when the deadline is over or it lasted for a ttl.
    async fn ride_out(&mut self, error: Error) -> Result<()> {
        self.had_trouble |= error.effect() == Effect::Unknown;
        let now = self.clock.now();
        let since = *self.trouble_since.get_or_insert(now);
        if now.since(since) >= self.request.ttl || self.deadline.is_past(&self.clock) {
            return Err(error);
        }
        let until = now.plus(self.trouble.pause()).min(self.deadline.instant());
        sleep_until(&self.clock, until).await;
        Ok(())
    }

    fn wait_timeout(&self, busy: Option<Busy>) -> Error {
        wait_timeout(self.request, busy.or_else(|| self.last_busy.clone()))
            .on_backend(self.backend.info().name)
    }
}

/// One attempt under a time limit; a grant with nothing left of it is an error.
pub(crate) async fn attempt<B>(
    backend: &B,
    timers: &Timers,
    request: &LockRequest,
    limit: Duration,
) -> Result<TryLock>
where
    B: LockBackend + ?Sized,
{
    let context = |error: Error| {
        error.on_backend(backend.info().name).in_operation(Operation::TryLock).for_key(&request.claim.key)
    };
    let outcome = bounded(timers, limit, backend.try_lock(request)).await.map_err(context)?;
    if let TryLock::Acquired(lease) = &outcome
        && lease.valid_until.since(backend.clock().now()) < LEAST_VALIDITY
    {
        return Err(context(
            Error::new(
                ErrorKind::TooSlow,
                format!(
                    "the grant came when nothing was left of its ttl of {:?}; it is given back (use a longer ttl, or see why the store is slow)",
                    lease.ttl
                ),
            )
            .with_effect(Effect::Unknown),
        ));
    }
    Ok(outcome)
}

/// The error for a wait that ended in vain.
pub(crate) fn wait_timeout(request: &LockRequest, busy: Option<Busy>) -> Error {
    let unknown = busy.as_ref().is_none_or(|busy| busy.free_in.is_none() && busy.holder.is_none());
    let mut message = String::from(if unknown {
        "the lock is held by another owner, or somebody waits for it in front of this call"
    } else {
        "the lock is free, but somebody waits for it in front of this call"
    });
    if let Some(holder) = busy.as_ref().and_then(|busy| busy.holder.as_ref()) {
        message = format!("the lock is held by {}, token {}", holder.owner, holder.token);
        if !holder.metadata.is_empty() {
            message.push_str(&format!(" ({})", holder.metadata));
        }
    }
    let error =
        Error::new(ErrorKind::WaitTimeout, message).in_operation(Operation::Lock).for_key(&request.claim.key);
    match busy {
        Some(busy) => error.with_busy(busy),
        None => error,
    }
}

/// Default limit of one store operation: min(2 s, ttl/6), so that two repeats fit into the time
/// between a renewal and the lease's end.
#[must_use]
pub(crate) fn op_timeout(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(2))
}

/// Runs one store operation under a time limit.
pub(crate) async fn bounded<T>(
    timers: &Timers,
    limit: Duration,
    operation: impl Future<Output = Result<T>>,
) -> Result<T> {
    timers.limit(limit, operation).await.unwrap_or_else(|| {
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("the store did not answer within {limit:?}; whether it acted is not known"),
        ))
    })
}

/// Sleeps until `until` on `clock`, whatever tokio's timers make of a suspended machine.
pub(crate) async fn sleep_until(clock: &Clock, until: Instant) {
    if until == Instant::FAR {
        return std::future::pending().await;
    }
    loop {
        let left = until.since(clock.now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(CLOCK_CHECK)).await;
    }
}
