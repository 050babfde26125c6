//! Counters and times of every call.

use std::time::Duration;

use async_trait::async_trait;
use metrics::{Counter, Histogram};

use crate::admin::LockAdmin;
use crate::backend::LockBackend;
use crate::claim::Claim;
use crate::clock::{Clock, Deadline, Instant};
use crate::error::{Operation, Result};
use crate::guarantees::BackendInfo;
use crate::health::Health;
use crate::lease::Lease;
use crate::metric::{OPERATION, OPERATIONS};
use crate::outcome::{Busy, Release, Renewal, TryLock};
use crate::request::LockRequest;
use crate::series::Family;

/// Counts and times every call through the `metrics` facade:
/// `distlock_operations_total{backend, operation, outcome}` and
/// `distlock_operation_seconds{backend, operation}`. Keys are never labels. [`METRICS`](crate::METRICS) has those that
/// clients add to them.
#[derive(Debug)]
pub struct Measured<B> {
    inner: B,
    operations: Family<Counter, 16>,
    operation: Family<Histogram, 6>,
}

impl<B: LockBackend> Measured<B> {
    /// `inner`, measured.
    pub const fn new(inner: B) -> Self {
        Self { inner, operations: Family::new(&OPERATIONS), operation: Family::new(&OPERATION) }
    }

    async fn measure<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T>>,
        outcome: impl FnOnce(&T) -> &'static str,
    ) -> Result<T> {
        let before = self.inner.clock().now();
        let result = call.await;
        self.note(operation, before, result.as_ref().map_or("error", outcome), 1);
        result
    }

    fn note(&self, operation: Operation, before: Instant, outcome: &'static str, times: u64) {
        let backend = self.inner.info().name;
        let took = self.inner.clock().now().since(before);
        let operation = operation.as_str();
        self.operations.count(&[backend, operation, outcome], times);
        self.operation.time(&[backend, operation], took);
    }
}

fn attempted(outcome: &TryLock) -> &'static str {
    match outcome {
        TryLock::Acquired(_) => "acquired",
        TryLock::Busy(_) => "busy",
    }
}

fn renewed(renewal: &Renewal) -> &'static str {
    match renewal {
        Renewal::Renewed { .. } => "renewed",
        Renewal::Lost(_) => "lost",
    }
}

fn released(release: &Release) -> &'static str {
    match release {
        Release::Released => "released",
        Release::NotHeld(_) => "not-held",
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Measured<B> {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        self.measure(Operation::TryLock, self.inner.try_lock(request), attempted).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.measure(Operation::Renew, self.inner.renew(lease, ttl), renewed).await
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.measure(Operation::Unlock, self.inner.unlock(claim), released).await
    }

    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        self.measure(Operation::Lock, self.inner.lock(request, deadline), |_| "acquired").await
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let before = self.inner.clock().now();
        let results = self.inner.renew_many(leases, ttl).await;
        let mut counts = [("renewed", 0), ("lost", 0), ("error", 0)];
        for result in &results {
            let outcome = result.as_ref().map_or("error", renewed);
            counts.iter_mut().filter(|(name, _)| *name == outcome).for_each(|(_, count)| *count += 1);
        }
        for (outcome, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.note(Operation::Renew, before, outcome, count);
        }
        results
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.inner.watch_release(claim, busy).await
    }

    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        self.inner.watch_loss(lease).await
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        self.measure(Operation::HandOver, self.inner.hand_over(lease, next), attempted).await
    }

    async fn probe(&self) -> Result<Health> {
        self.measure(Operation::Probe, self.inner.probe(), |_| "ok").await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin()
    }

    fn commands_sent(&self) -> Option<u64> {
        self.inner.commands_sent()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
