//! A span for every call.

mod admin;
mod batch;
mod noted;

use std::time::Duration;

use async_trait::async_trait;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span, debug_span};

use self::batch::Batch;
use self::noted::{attempted, granted, noted, released, renewed};
use super::unlocking;

use crate::admin::LockAdmin;
use crate::backend::LockBackend;
use crate::claim::Claim;
use crate::clock::{Clock, Deadline};
use crate::error::{Operation, Result};
use crate::guarantees::BackendInfo;
use crate::health::Health;
use crate::lease::Lease;
use crate::outcome::{Busy, Release, Renewal, TryLock};
use crate::request::LockRequest;

/// Puts every call into a `tracing` span at debug level, named `distlock`. Trouble is logged as it is returned, at debug
/// level too, since only the caller knows what it means.
///
/// | field | in the span of |
/// |---|---|
/// | `backend`, `operation`, `outcome` | every call |
/// | `key` | every call for one lock |
/// | `owner` | those of the claim that the call is for; of `force_unlock`, the victim |
/// | `token` | where the call brings, has or takes away a grant; the floor of `raise_token_floor` |
/// | `previous_owner`, `previous_token` | `hand_over`: of the lease that is passed on |
/// | `count` | a batch of renewals, which has a span for each lease inside; the records that `list` found |
/// | `prefix` | `list` |
///
/// A claim has no token; the span of `unlock` has the one that the [`LockClient`](crate::LockClient) knows, which is that
/// of every lock that was held. Keys are shown as [`LockKey`](crate::LockKey) shows itself. Waiting for hints has no span.
#[derive(Debug)]
pub struct Traced<B> {
    inner: B,
}

impl<B: LockBackend> Traced<B> {
    /// `inner`, with spans.
    pub const fn new(inner: B) -> Self {
        Self { inner }
    }

    fn span(&self, operation: Operation) -> Span {
        debug_span!(
            "distlock",
            backend = self.inner.info().name,
            operation = operation.as_str(),
            key = Empty,
            prefix = Empty,
            owner = Empty,
            token = Empty,
            previous_owner = Empty,
            previous_token = Empty,
            count = Empty,
            outcome = Empty,
        )
    }

    fn span_of_claim(&self, operation: Operation, claim: &Claim) -> Span {
        let span = self.span(operation);
        if !span.is_disabled() {
            span.record("key", display(&claim.key));
            span.record("owner", display(&claim.owner));
        }
        span
    }

    fn span_of_lease(&self, operation: Operation, lease: &Lease) -> Span {
        let span = self.span_of_claim(operation, &lease.claim);
        span.record("token", lease.token.get());
        span
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
        let span = self.span_of_claim(Operation::TryLock, &request.claim);
        if span.is_disabled() {
            return self.inner.try_lock(request).await;
        }
        async { noted(self.inner.try_lock(request).await, attempted) }.instrument(span).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let span = self.span_of_lease(Operation::Renew, lease);
        if span.is_disabled() {
            return self.inner.renew(lease, ttl).await;
        }
        async { noted(self.inner.renew(lease, ttl).await, renewed) }.instrument(span).await
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let span = self.span_of_claim(Operation::Unlock, claim);
        if span.is_disabled() {
            return self.inner.unlock(claim).await;
        }
        if let Some(token) = unlocking::known_token() {
            span.record("token", token.get());
        }
        async { noted(self.inner.unlock(claim).await, released) }.instrument(span).await
    }

    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        let span = self.span_of_claim(Operation::Lock, &request.claim);
        if span.is_disabled() {
            return self.inner.lock(request, deadline).await;
        }
        async { noted(self.inner.lock(request, deadline).await, granted) }.instrument(span).await
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let span = self.span(Operation::Renew);
        if span.is_disabled() {
            return self.inner.renew_many(leases, ttl).await;
        }
        let batch = Batch::new(span, leases, |lease| self.span_of_lease(Operation::Renew, lease));
        let results = self.inner.renew_many(leases, ttl).instrument(batch.span().clone()).await;
        batch.note(&results);
        results
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.inner.watch_release(claim, busy).await
    }

    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        self.inner.watch_loss(lease).await
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        let span = self.span_of_claim(Operation::HandOver, &next.claim);
        if span.is_disabled() {
            return self.inner.hand_over(lease, next).await;
        }
        span.record("previous_owner", display(&lease.claim.owner));
        span.record("previous_token", lease.token.get());
        async { noted(self.inner.hand_over(lease, next).await, attempted) }.instrument(span).await
    }

    async fn probe(&self) -> Result<Health> {
        let span = self.span(Operation::Probe);
        if span.is_disabled() {
            return self.inner.probe().await;
        }
        async { noted(self.inner.probe().await, |_| "ok") }.instrument(span).await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin().is_some().then_some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        self.inner.commands_sent()
    }

    async fn close(&self) -> Result<()> {
        let span = self.span(Operation::Close);
        if span.is_disabled() {
            return self.inner.close().await;
        }
        async { noted(self.inner.close().await, |()| "ok") }.instrument(span).await
    }
}
