//! What the tests share: a client on a memory store, and a backend that watches or disturbs the calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    Busy, Claim, Clock, Effect, Error, ErrorKind, Health, Instant, Lease, LockAdmin, LockBackend, LockClient,
    LockKey, LockOptions, LockRequest, MemoryBackend, Operation, OwnerId, Release, Renewal, Result, TryLock,
    WaitPolicy,
};

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn key(name: &str) -> LockKey {
    LockKey::new(name).unwrap()
}

/// A ttl of 9 s: renewed every 3 s, operations limited to 1.5 s, in jeopardy after 4.5 s.
pub(crate) fn nine() -> LockOptions {
    LockOptions::default().ttl(secs(9))
}

pub(crate) fn waiting_up_to(patience: Duration) -> LockOptions {
    nine().wait(WaitPolicy::UpTo(patience))
}

/// A store with a client on it, seen through a [`Spy`].
pub(crate) fn rig() -> (Arc<MemoryBackend>, Arc<Spy>, LockClient) {
    let store = Arc::new(MemoryBackend::new());
    let spy = Spy::on(&store);
    let client = LockClient::new(Arc::clone(&spy) as Arc<dyn LockBackend>);
    (store, spy, client)
}

/// Lets everything that is ready run.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Waits until `done`: at most an hour of virtual time, and a minute of real time.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    for _ in 0..360_000 {
        if done() {
            return;
        }
        if start.elapsed() > secs(60) {
            break;
        }
        tokio::time::sleep(ms(10)).await;
    }
    panic!("never: {what}");
}

/// Records every call, and can yield inside them so that they have several await points.
#[derive(Debug)]
pub(crate) struct Spy {
    pub(crate) store: Arc<MemoryBackend>,
    pub(crate) calls: Mutex<Vec<Call>>,
    pub(crate) yields: AtomicUsize,
    pub(crate) mute_hints: bool,
    /// So many hand-overs don't get to the replicas of a store that has some.
    pub(crate) unreplicated: AtomicUsize,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) owners: Vec<OwnerId>,
    pub(crate) at: Instant,
}

impl Spy {
    pub(crate) fn on(store: &Arc<MemoryBackend>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            calls: Mutex::default(),
            yields: AtomicUsize::new(0),
            mute_hints: false,
            unreplicated: AtomicUsize::new(0),
        })
    }

    pub(crate) fn muted(store: &Arc<MemoryBackend>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            calls: Mutex::default(),
            yields: AtomicUsize::new(0),
            mute_hints: true,
            unreplicated: AtomicUsize::new(0),
        })
    }

    pub(crate) fn count(&self, operation: Operation) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| call.operation == operation).count()
    }

    pub(crate) fn calls_of(&self, operation: Operation) -> Vec<Call> {
        self.calls.lock().unwrap().iter().filter(|call| call.operation == operation).cloned().collect()
    }

    pub(crate) fn forget(&self) {
        self.calls.lock().unwrap().clear();
    }

    fn note(&self, operation: Operation, owners: Vec<OwnerId>) {
        let at = self.store.clock().now();
        self.calls.lock().unwrap().push(Call { operation, owners, at });
    }

    async fn pause(&self) {
        for _ in 0..self.yields.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl LockBackend for Spy {
    fn info(&self) -> &distlock_core::BackendInfo {
        self.store.info()
    }
    fn clock(&self) -> Clock {
        self.store.clock()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        self.note(Operation::TryLock, vec![request.claim.owner]);
        self.pause().await;
        let outcome = self.store.try_lock(request).await;
        self.pause().await;
        outcome
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.note(Operation::Renew, vec![lease.claim.owner]);
        self.pause().await;
        let renewal = self.store.renew(lease, ttl).await;
        self.pause().await;
        renewal
    }
    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        self.note(Operation::Renew, leases.iter().map(|lease| lease.claim.owner).collect());
        self.pause().await;
        let renewals = self.store.renew_many(leases, ttl).await;
        self.pause().await;
        renewals
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.note(Operation::Unlock, vec![claim.owner]);
        self.pause().await;
        let release = self.store.unlock(claim).await;
        self.pause().await;
        release
    }
    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        self.note(Operation::HandOver, vec![lease.claim.owner, next.claim.owner]);
        self.pause().await;
        let mut outcome = self.store.hand_over(lease, next).await;
        if self.unreplicated.load(Ordering::Relaxed) > 0 && matches!(outcome, Ok(TryLock::Acquired(_))) {
            self.unreplicated.fetch_sub(1, Ordering::Relaxed);
            self.store.unlock(&next.claim).await?;
            let error = Error::new(ErrorKind::NotReplicated, "too few replicas");
            outcome = Err(error.with_effect(Effect::Unknown));
        }
        self.pause().await;
        outcome
    }
    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        if self.mute_hints {
            std::future::pending::<()>().await;
        }
        self.store.watch_release(claim, busy).await
    }
    async fn probe(&self) -> Result<Health> {
        self.store.probe().await
    }
    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.store.admin()
    }
}

pub(crate) fn kind<T>(result: Result<T>) -> ErrorKind {
    result.map(|_| ()).map_err(|error: Error| error.kind()).unwrap_err()
}
