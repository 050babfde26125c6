//! Keys behind a prefix.

use std::time::Duration;

use async_trait::async_trait;

use crate::admin::{LockAdmin, LockRecord};
use crate::backend::LockBackend;
use crate::claim::Claim;
use crate::clock::{Clock, Deadline};
use crate::error::{Error, ErrorKind, Result};
use crate::fencing::FencingToken;
use crate::guarantees::BackendInfo;
use crate::health::Health;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::namespace::Namespace;
use crate::outcome::{Busy, Holder, Release, Renewal, TryLock};
use crate::request::LockRequest;

/// Puts every key into a namespace. Callers see keys without it; the store and its errors have it.
#[derive(Debug)]
pub struct Namespaced<B> {
    inner: B,
    namespace: Namespace,
}

impl<B: LockBackend> Namespaced<B> {
    /// `inner`, seen from inside `namespace`.
    pub const fn new(inner: B, namespace: Namespace) -> Self {
        Self { inner, namespace }
    }

    fn claim(&self, claim: &Claim) -> Result<Claim> {
        Ok(Claim { key: self.namespace.outer(&claim.key)?, owner: claim.owner })
    }

    fn request(&self, request: &LockRequest) -> Result<LockRequest> {
        Ok(LockRequest { claim: self.claim(&request.claim)?, ..request.clone() })
    }

    fn lease(&self, lease: &Lease) -> Result<Lease> {
        Ok(Lease { claim: self.claim(&lease.claim)?, ..lease.clone() })
    }

    fn inner_admin(&self) -> Result<&dyn LockAdmin> {
        self.inner.admin().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this store can't be inspected")
                .on_backend(self.inner.info().name)
        })
    }

    fn record(&self, record: LockRecord) -> Option<LockRecord> {
        Some(LockRecord { key: self.namespace.inner(&record.key)?, ..record })
    }
}

/// The grant as the caller asked for it: under its own key.
fn granted(request: &LockRequest, outcome: TryLock) -> TryLock {
    match outcome {
        TryLock::Acquired(lease) => TryLock::Acquired(Lease { claim: request.claim.clone(), ..lease }),
        TryLock::Busy(busy) => TryLock::Busy(busy),
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Namespaced<B> {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let outcome = self.inner.try_lock(&self.request(request)?).await?;
        Ok(granted(request, outcome))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.inner.renew(&self.lease(lease)?, ttl).await
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.inner.unlock(&self.claim(claim)?).await
    }

    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        let lease = self.inner.lock(&self.request(request)?, deadline).await?;
        Ok(Lease { claim: request.claim.clone(), ..lease })
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        match leases.iter().map(|lease| self.lease(lease)).collect::<Result<Vec<_>>>() {
            Ok(outer) => self.inner.renew_many(&outer, ttl).await,
            // A lease of this namespace always has a key that fits; a stranger's fails them all.
            Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.inner.watch_release(&self.claim(claim)?, busy).await
    }

    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        self.inner.watch_loss(&self.lease(lease)?).await
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        let outcome = self.inner.hand_over(&self.lease(lease)?, &self.request(next)?).await?;
        Ok(granted(next, outcome))
    }

    async fn probe(&self) -> Result<Health> {
        self.inner.probe().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin().is_some().then_some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        self.inner.commands_sent()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockAdmin for Namespaced<B> {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        let record = self.inner_admin()?.inspect(&self.namespace.outer(key)?).await?;
        Ok(record.and_then(|record| self.record(record)))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let prefix = [self.namespace.prefix(), prefix].concat();
        let after = after.map(|after| self.namespace.outer(after)).transpose()?;
        let records = self.inner_admin()?.list(&prefix, after.as_ref(), limit).await?;
        Ok(records.into_iter().filter_map(|record| self.record(record)).collect())
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        self.inner_admin()?.force_unlock(&self.namespace.outer(key)?).await
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        self.inner_admin()?.raise_token_floor(floor).await
    }
}
