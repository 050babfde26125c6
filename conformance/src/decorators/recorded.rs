//! A backend that writes down every call and its answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Deadline, Effect, FencingToken, Health, Holder, Instant, Lease,
    LockAdmin, LockBackend, LockKey, LockRecord, LockRequest, OwnerId, Release, Renewal, Result, TryLock,
};

use crate::history::{Recorder, What, nanos};

/// Passes everything on to `inner` and records it.
#[derive(Debug)]
pub struct Recorded {
    inner: Arc<dyn LockBackend>,
    log: Arc<Recorder>,
    admin: Option<Admin>,
}

#[derive(Debug)]
struct Admin {
    inner: Arc<dyn LockBackend>,
    log: Arc<Recorder>,
}

/// A call that was sent. Dropped without an answer, it records that none will come.
struct Call<'a> {
    log: &'a Recorder,
    key: &'a LockKey,
    /// Nobody, if an operator called.
    owner: Option<OwnerId>,
    op: u64,
    began: Instant,
    dropped: Option<What>,
}

impl<'a> Call<'a> {
    fn new(
        log: &'a Recorder,
        key: &'a LockKey,
        owner: Option<OwnerId>,
        left: impl Fn(u64) -> What,
        dropped: impl Fn(u64) -> What,
    ) -> Self {
        let op = log.next_op();
        let call = Self { log, key, owner, op, began: log.now(), dropped: Some(dropped(op)) };
        call.record_at(call.began, left(op));
        call
    }

    fn record(&self, what: What) {
        self.record_at(self.log.now(), what);
    }

    fn record_at(&self, at: Instant, what: What) {
        let owner = self.owner.map(|owner| owner.to_string()).unwrap_or_default();
        self.log.record_at(at, self.key, owner, what);
    }

    /// Writes down one more request that began when this call did, whose answer was lost.
    fn lost_beside(&self, queue: bool, ttl: u64) {
        let op = self.log.next_op();
        self.record_at(self.began, What::Ask { op, queue, handed: false, ttl });
        self.record(What::AskFailed { op, unknown: true });
    }

    fn ask(log: &'a Recorder, request: &'a LockRequest, handed: bool) -> Self {
        let (queue, ttl) = (request.queue, nanos(request.ttl));
        Self::new(
            log,
            &request.claim.key,
            Some(request.claim.owner),
            |op| What::Ask { op, queue, handed, ttl },
            |op| What::AskFailed { op, unknown: true },
        )
    }

    fn renew(log: &'a Recorder, lease: &'a Lease, ttl: Duration) -> Self {
        let ttl = nanos(ttl.max(lease.ttl));
        let Claim { key, owner, .. } = &lease.claim;
        Self::new(log, key, Some(*owner), |op| What::Renew { op, ttl }, |op| What::RenewFailed { op })
    }

    fn unlock(log: &'a Recorder, claim: &'a Claim, handed: bool) -> Self {
        let Claim { key, owner, .. } = claim;
        Self::new(log, key, Some(*owner), |op| What::Unlock { op, handed }, |op| What::UnlockFailed { op })
    }

    fn look(log: &'a Recorder, key: &'a LockKey) -> Self {
        Self::new(log, key, None, |op| What::Look { op }, |op| What::LookFailed { op })
    }

    fn force(log: &'a Recorder, key: &'a LockKey) -> Self {
        Self::new(log, key, None, |op| What::Force { op }, |op| What::ForceFailed { op })
    }

    fn answered(mut self, what: impl FnOnce(u64) -> What) {
        self.dropped = None;
        self.record(what(self.op));
    }

    fn tried(self, request: &LockRequest, result: &Result<TryLock>) {
        let is_doubtful = match result {
            Ok(TryLock::Acquired(lease)) => lease.is_doubtful,
            Ok(TryLock::Busy(busy)) => busy.is_doubtful,
            Err(_) => false,
        };
        if is_doubtful {
            self.lost_beside(request.queue, nanos(request.ttl));
        }
        match result {
            Ok(TryLock::Acquired(lease)) => self.granted(lease),
            Ok(TryLock::Busy(_)) => self.answered(|op| What::Busy { op }),
            Err(error) => {
                let unknown = error.effect() == Effect::Unknown;
                self.answered(|op| What::AskFailed { op, unknown });
            }
        }
    }

    fn granted(self, lease: &Lease) {
        let (token, ttl, valid_until) = (lease.token.get(), nanos(lease.ttl), lease.valid_until.as_nanos());
        self.answered(|op| What::Granted { op, token, ttl, valid_until });
    }

    fn renewed(self, result: &Result<Renewal>) {
        match result {
            Ok(Renewal::Renewed { valid_until }) => {
                let valid_until = valid_until.as_nanos();
                self.answered(|op| What::Renewed { op, valid_until });
            }
            Ok(Renewal::Lost(_)) => self.answered(|op| What::RenewLost { op }),
            Err(_) => self.answered(|op| What::RenewFailed { op }),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(what) = self.dropped.take() {
            self.record(what);
        }
    }
}

impl Recorded {
    /// Records what `inner` does in `log`.
    #[must_use]
    pub fn new(inner: Arc<dyn LockBackend>, log: Arc<Recorder>) -> Self {
        let admin =
            inner.admin().is_some().then(|| Admin { inner: Arc::clone(&inner), log: Arc::clone(&log) });
        Self { inner, log, admin }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockBackend for Recorded {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let call = Call::ask(&self.log, request, false);
        let result = self.inner.try_lock(request).await;
        call.tried(request, &result);
        result
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let call = Call::renew(&self.log, lease, ttl);
        let result = self.inner.renew(lease, ttl).await;
        call.renewed(&result);
        result
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let call = Call::unlock(&self.log, claim, false);
        let result = self.inner.unlock(claim).await;
        match &result {
            Ok(release) => {
                let released = *release == Release::Released;
                call.answered(|op| What::Unlocked { op, released });
            }
            Err(_) => call.answered(|op| What::UnlockFailed { op }),
        }
        result
    }
    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        if !self.info().supports.native_wait {
            // The provided loop, on this backend, so that its attempts are recorded too.
            return distlock_core::acquire(self, request, deadline).await;
        }
        let call = Call::ask(&self.log, request, false);
        let result = self.inner.lock(request, deadline).await;
        match &result {
            Ok(lease) => call.granted(lease),
            Err(error) => {
                let unknown = error.effect() == Effect::Unknown;
                call.answered(|op| What::AskFailed { op, unknown });
            }
        }
        result
    }
    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let calls: Vec<_> = leases.iter().map(|lease| Call::renew(&self.log, lease, ttl)).collect();
        let results = self.inner.renew_many(leases, ttl).await;
        for (call, result) in calls.into_iter().zip(&results) {
            call.renewed(result);
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
        let unlock = Call::unlock(&self.log, &lease.claim, true);
        let ask = Call::ask(&self.log, next, true);
        let result = self.inner.hand_over(lease, next).await;
        match &result {
            // The answer says that the old owner is out, not whether it still held the lock.
            Ok(TryLock::Acquired(_)) => unlock.answered(|op| What::Unlocked { op, released: false }),
            Ok(TryLock::Busy(_)) => unlock.answered(|op| What::Kept { op }),
            Err(_) => {}
        }
        ask.tried(next, &result);
        result
    }
    async fn probe(&self) -> Result<Health> {
        self.inner.probe().await
    }
    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.admin.as_ref().map(|admin| admin as &dyn LockAdmin)
    }
    fn commands_sent(&self) -> Option<u64> {
        self.inner.commands_sent()
    }
    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

impl Admin {
    fn inner(&self) -> &dyn LockAdmin {
        self.inner.admin().expect("the backend had one when it was connected")
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockAdmin for Admin {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        let call = Call::look(&self.log, key);
        let record = self.inner().inspect(key).await?;
        let holder = record.as_ref().and_then(|record| record.holders.first());
        call.answered(|op| What::Seen {
            op,
            holder: holder.map(|holder| holder.owner.to_string()),
            token: holder.map(|holder| holder.token.get()),
            left: holder.and_then(|holder| holder.expires_in).map(nanos),
        });
        Ok(record)
    }
    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        self.inner().list(prefix, after, limit).await
    }
    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        let call = Call::force(&self.log, key);
        let holder = self.inner().force_unlock(key).await?;
        call.answered(|op| What::Forced { op });
        Ok(holder)
    }
    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        self.inner().raise_token_floor(floor).await
    }
}
