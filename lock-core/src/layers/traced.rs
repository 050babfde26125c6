//! A span for every call.

use std::time::Duration;

use async_trait::async_trait;
use tracing::{Instrument, Span, debug_span};

use crate::admin::LockAdmin;
use crate::backend::LockBackend;
use crate::claim::Claim;
use crate::clock::{Clock, Deadline};
use crate::error::{Error, Operation, Result};
use crate::guarantees::BackendInfo;
use crate::health::Health;
use crate::lease::Lease;
use crate::outcome::{Busy, Release, Renewal, TryLock};
use crate::request::LockRequest;

/// Puts every call into a `tracing` span at debug level with the fields `backend`, `operation`,
/// `key`, `owner`, `token` and `outcome`; trouble is logged as it is returned, at debug level too,
/// since only the caller knows what it means.
#[derive(Debug)]
pub struct Traced<B> {
    inner: B,
}

impl<B: LockBackend> Traced<B> {
    /// `inner`, with spans.
    pub const fn new(inner: B) -> Self {
        Self { inner }
    }

    fn span(&self, operation: Operation, claim: Option<&Claim>) -> Span {
        let span = debug_span!(
            "distlock",
            backend = self.inner.info().name,
            operation = operation.as_str(),
            key = tracing::field::Empty,
            owner = tracing::field::Empty,
            token = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        if !span.is_disabled()
            && let Some(claim) = claim
        {
            span.record("key", tracing::field::display(&claim.key));
            span.record("owner", tracing::field::display(&claim.owner));
        }
        span
    }
}

/// Notes the outcome in the present span.
fn noted<T>(result: Result<T>, outcome: impl FnOnce(&T) -> &'static str) -> Result<T> {
    match &result {
        Ok(value) => {
            Span::current().record("outcome", outcome(value));
        }
        Err(error) => failed(error),
    }
    result
}

fn failed(error: &Error) {
    Span::current().record("outcome", "error");
    tracing::debug!(error = %error, "the store operation failed");
}

fn attempted(outcome: &TryLock) -> &'static str {
    match outcome {
        TryLock::Acquired(lease) => {
            Span::current().record("token", lease.token.get());
            "acquired"
        }
        TryLock::Busy(_) => "busy",
    }
}

fn renewed(renewal: &Renewal) -> &'static str {
    match renewal {
        Renewal::Renewed { .. } => "renewed",
        Renewal::Lost(reason) => reason.as_str(),
    }
}

fn released(release: &Release) -> &'static str {
    match release {
        Release::Released => "released",
        Release::NotHeld(reason) => reason.as_str(),
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Traced<B> {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let span = self.span(Operation::TryLock, Some(&request.claim));
        if span.is_disabled() {
            return self.inner.try_lock(request).await;
        }
        async { noted(self.inner.try_lock(request).await, attempted) }.instrument(span).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let span = self.span(Operation::Renew, Some(&lease.claim));
        if span.is_disabled() {
            return self.inner.renew(lease, ttl).await;
        }
        async { noted(self.inner.renew(lease, ttl).await, renewed) }.instrument(span).await
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let span = self.span(Operation::Unlock, Some(claim));
        if span.is_disabled() {
            return self.inner.unlock(claim).await;
        }
        async { noted(self.inner.unlock(claim).await, released) }.instrument(span).await
    }

    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        let span = self.span(Operation::Lock, Some(&request.claim));
        if span.is_disabled() {
            return self.inner.lock(request, deadline).await;
        }
        async { noted(self.inner.lock(request, deadline).await, |_| "acquired") }.instrument(span).await
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let call = async {
            let results = self.inner.renew_many(leases, ttl).await;
            results.iter().filter_map(|result| result.as_ref().err()).take(1).for_each(failed);
            results
        };
        call.instrument(self.span(Operation::Renew, None)).await
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.inner.watch_release(claim, busy).await
    }

    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        self.inner.watch_loss(lease).await
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        let span = self.span(Operation::HandOver, Some(&next.claim));
        if span.is_disabled() {
            return self.inner.hand_over(lease, next).await;
        }
        async { noted(self.inner.hand_over(lease, next).await, attempted) }.instrument(span).await
    }

    async fn probe(&self) -> Result<Health> {
        let span = self.span(Operation::Probe, None);
        if span.is_disabled() {
            return self.inner.probe().await;
        }
        async { noted(self.inner.probe().await, |_| "ok") }.instrument(span).await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin()
    }

    fn commands_sent(&self) -> Option<u64> {
        self.inner.commands_sent()
    }

    async fn close(&self) -> Result<()> {
        let span = self.span(Operation::Close, None);
        if span.is_disabled() {
            return self.inner.close().await;
        }
        async { noted(self.inner.close().await, |()| "ok") }.instrument(span).await
    }
}
