//! A time limit on every call.

use std::time::Duration;

use async_trait::async_trait;

use crate::admin::LockAdmin;
use crate::backend::LockBackend;
use crate::claim::Claim;
use crate::clock::{Clock, Deadline};
use crate::error::Result;
use crate::guarantees::BackendInfo;
use crate::health::Health;
use crate::lease::Lease;
use crate::outcome::{Busy, Release, Renewal, TryLock};
use crate::request::LockRequest;
use crate::timers::Timers;
use crate::waiting::bounded;

/// Drops every call that takes longer than a limit, with `Unavailable` and an unknown effect. For
/// those who use a backend without a [`LockClient`](crate::LockClient), which has limits of its own.
/// Waiting calls are not limited.
#[derive(Debug)]
pub struct Timed<B> {
    inner: B,
    limit: Duration,
    timers: Timers,
}

impl<B: LockBackend> Timed<B> {
    /// `inner`, with at most `limit` for each call.
    pub const fn new(inner: B, limit: Duration) -> Self {
        Self { inner, limit, timers: Timers::new() }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Timed<B> {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        bounded(&self.timers, self.limit, self.inner.try_lock(request)).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        bounded(&self.timers, self.limit, self.inner.renew(lease, ttl)).await
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        bounded(&self.timers, self.limit, self.inner.unlock(claim)).await
    }

    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        self.inner.lock(request, deadline).await
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let renewals = async { Ok(self.inner.renew_many(leases, ttl).await) };
        match bounded(&self.timers, self.limit, renewals).await {
            Ok(renewals) => renewals,
            Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.inner.watch_release(claim, busy).await
    }

    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        self.inner.watch_loss(lease).await
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        bounded(&self.timers, self.limit, self.inner.hand_over(lease, next)).await
    }

    async fn probe(&self) -> Result<Health> {
        bounded(&self.timers, self.limit, self.inner.probe()).await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin()
    }

    fn commands_sent(&self) -> Option<u64> {
        self.inner.commands_sent()
    }

    async fn close(&self) -> Result<()> {
        bounded(&self.timers, self.limit, self.inner.close()).await
    }
}
