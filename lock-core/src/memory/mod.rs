//! The store inside the process: the reference backend, and a stand-in for users' own tests.

mod faults;
mod store;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

pub use self::faults::Faults;
use self::faults::Plan;
use self::store::Store;
use crate::admin::{LockAdmin, LockRecord};
use crate::backend::LockBackend;
use crate::claim::Claim;
use crate::clock::{Clock, Instant};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fencing::FencingToken;
use crate::guarantees::{BackendInfo, Guarantees};
use crate::health::Health;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::outcome::{Busy, Holder, Release, Renewal, TryLock};
use crate::request::LockRequest;
use crate::supports::Supports;

/// A store inside the process: first come, first served, gone with the process.
///
/// It runs on tokio's clock, so that tests can pause and advance it, and carries out scripted
/// [`Faults`]. Share one by [`Arc`](std::sync::Arc); each new one is a store of its own.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> distlock_core::Result<()> {
/// use std::{sync::Arc, time::Duration};
/// use distlock_core::{LockClient, LockState, LostReason, MemoryBackend};
/// let store = Arc::new(MemoryBackend::new());
/// let client = LockClient::new(store.clone());
/// let guard = client.lock("job").await?;
/// store.faults().silence(true);
/// assert_eq!(guard.lost().await, LostReason::Unreachable);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct MemoryBackend {
    info: BackendInfo,
    clock: Clock,
    store: Mutex<Store>,
    faults: Faults,
    commands: AtomicU64,
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryBackend {
    /// Name in errors and reports, and URL scheme.
    pub const NAME: &'static str = "memory";

    /// An empty store on tokio's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Clock::tokio())
    }

    /// An empty store on this clock.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        let supports = Supports::NONE.push().queue().batch_renew().hand_over().admin().adopt();
        let mut guarantees = Guarantees::single_process();
        guarantees.keeps_places = true;
        Self {
            info: BackendInfo::new(Self::NAME, guarantees, supports),
            clock,
            store: Mutex::new(Store::new(wall_micros())),
            faults: Faults::default(),
            commands: AtomicU64::new(0),
        }
    }

    /// The store's scripted faults.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Ends the lease of whoever holds `key`, as if its time had run out.
    pub fn expire_now(&self, key: &LockKey) {
        let now = self.clock.now();
        let _ = self.store().force_unlock(key, now);
    }

    /// Number of keys that somebody holds or waits for, or did when last asked about.
    #[must_use]
    pub fn records(&self) -> usize {
        self.store().len()
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one command, and says what the script has in store for it.
    async fn command(&self, operation: Operation) -> Result<Plan> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.faults.before(operation).await
    }

    async fn renew_one(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let sent = self.clock.now();
        let plan = self.faults.before(Operation::Renew).await?;
        if plan.twice {
            self.renew_now(lease, ttl, sent);
        }
        plan.reply(self.renew_now(lease, ttl, sent)).await
    }

    fn try_lock_now(&self, request: &LockRequest, ttl: Duration, sent: Instant, now: Instant) -> TryLock {
        match self.store().try_lock(request, ttl, now) {
            Ok(token) => TryLock::Acquired(Lease::granted(request, token, ttl, sent)),
            Err(busy) => TryLock::Busy(busy),
        }
    }

    fn renew_now(&self, lease: &Lease, ttl: Duration, sent: Instant) -> Renewal {
        let now = self.clock.now();
        match self.store().renew(&lease.claim.key, lease.claim.owner, ttl, now) {
            Ok(()) => lease.renewed(ttl, sent),
            Err(reason) => Renewal::Lost(reason),
        }
    }

    fn unlock_now(&self, claim: &Claim) -> Release {
        let now = self.clock.now();
        self.store().unlock(&claim.key, claim.owner, now)
    }
}

#[async_trait]
impl LockBackend for MemoryBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let ttl = self.info.guarantees.effective_ttl(request.ttl)?;
        let sent = self.clock.now();
        let plan = self.command(Operation::TryLock).await?;
        // A reading of the clock is a good part of what a lock in memory costs.
        let now = if plan.delayed { self.clock.now() } else { sent };
        if plan.twice {
            self.try_lock_now(request, ttl, sent, now);
        }
        plan.reply(self.try_lock_now(request, ttl, sent, now)).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.renew_one(lease, ttl).await
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let plan = self.command(Operation::Unlock).await?;
        if plan.twice {
            self.unlock_now(claim);
        }
        plan.reply(self.unlock_now(claim)).await
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let mut results = Vec::with_capacity(leases.len());
        for lease in leases {
            results.push(self.renew_one(lease, ttl).await);
        }
        results
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        let now = self.clock.now();
        let wake = self.store().watch(&claim.key, claim.owner, busy, now);
        let Some(wake) = wake else { return Ok(()) };
        let woken = wake.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        // Again, now that no wake-up can be missed any more.
        if self.store().watch(&claim.key, claim.owner, busy, now).is_some() {
            woken.await;
        }
        Ok(())
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        next.require_key_of(lease)?;
        let ttl = self.info.guarantees.effective_ttl(next.ttl)?;
        let sent = self.clock.now();
        let plan = self.command(Operation::HandOver).await?;
        let now = self.clock.now();
        let granted = self.store().hand_over(&lease.claim, next, ttl, now);
        let outcome = match granted {
            Ok(token) => TryLock::Acquired(Lease::granted(next, token, ttl, sent)),
            Err(busy) => TryLock::Busy(busy),
        };
        plan.reply(outcome).await
    }

    async fn probe(&self) -> Result<Health> {
        let before = self.clock.now();
        let plan = self.command(Operation::Probe).await?;
        plan.reply(Health::new(None, self.clock.now().since(before))).await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        Some(self.commands.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl LockAdmin for MemoryBackend {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        self.command(Operation::Inspect).await?;
        let now = self.clock.now();
        Ok(self.store().inspect(key, now).map(|(holder, waiters)| record(key, holder, waiters)))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        self.command(Operation::List).await?;
        let now = self.clock.now();
        let mut store = self.store();
        let keys = store.keys_with(prefix, after);
        let held = keys.into_iter().filter_map(|key| {
            let (holder, waiters) = store.inspect(&key, now)?;
            Some(record(&key, holder, waiters))
        });
        Ok(held.take(limit).collect())
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        self.command(Operation::ForceUnlock).await?;
        let now = self.clock.now();
        Ok(self.store().force_unlock(key, now))
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        if floor == FencingToken::MAX {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                "no token is above that floor; give a lower one",
            ));
        }
        self.store().raise_floor(floor);
        Ok(())
    }
}

fn record(key: &LockKey, holder: Option<Holder>, waiters: u64) -> LockRecord {
    let record = LockRecord::new(key.clone()).waiters(waiters);
    match holder {
        Some(holder) => record.holder(holder),
        None => record,
    }
}

/// Where the tokens of a fresh store start: above those of an earlier process, unless the clock went back.
fn wall_micros() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "only a floor for tokens; nothing is decided by it")]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or_default()
}
