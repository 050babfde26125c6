//! Rule 2: Held, then Jeopardy, then Lost, on time and with the store silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Claim, Clock, ErrorKind, Health, Lease, LockBackend, LockClient, LockRequest, LockState,
    LostReason, MemoryBackend, Operation, Release, Renewal, Result, TryLock,
};
use tokio::sync::Notify;

use crate::rig::{ms, nine, rig, secs};

#[tokio::test(start_paused = true)]
async fn a_silent_store_puts_the_lock_in_jeopardy_and_then_loses_it_on_time() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let start = tokio::time::Instant::now();
    store.faults().silence(true);
    assert_eq!(guard.state(), LockState::Held);
    assert_eq!(guard.state_changed(LockState::Held).await, LockState::Jeopardy);
    assert_eq!(start.elapsed(), ms(4500), "half the ttl without proof of life");
    assert!(guard.is_valid(), "in jeopardy, not lost");
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    let late = start.elapsed() - (secs(9) - ms(90));
    assert!(late <= ms(2), "{late:?} late");
}

#[tokio::test(start_paused = true)]
async fn proof_of_life_ends_the_jeopardy() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.faults().silence(true);
    guard.state_changed(LockState::Held).await;
    store.faults().silence(false);
    assert_eq!(guard.state_changed(LockState::Jeopardy).await, LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_definite_loss_is_told_at_the_next_renewal() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.expire_now(guard.key());
    let start = tokio::time::Instant::now();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(start.elapsed() <= secs(3));
}

#[tokio::test(start_paused = true)]
async fn the_reason_tells_silence_from_refusal_and_theft() {
    let (store, _, client) = rig();
    let guard = client.lock_with("denied", &nine()).await.unwrap();
    for _ in 0..100 {
        store.faults().fail(Operation::Renew, ErrorKind::PermissionDenied);
    }
    assert_eq!(guard.lost().await, LostReason::Denied);
    store.faults().clear();

    let guard = client.lock_with("stolen", &nine()).await.unwrap();
    store.expire_now(guard.key());
    let _thief = client.try_lock("stolen").await.unwrap().unwrap();
    assert_eq!(guard.lost().await, LostReason::Stolen);
}

#[tokio::test(start_paused = true)]
async fn a_late_observer_learns_of_an_early_loss_and_release_is_not_loss() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.expire_now(guard.key());
    tokio::time::sleep(secs(20)).await;
    assert_eq!(guard.lost().await, LostReason::Expired);

    let guard = client.lock_with("k2", &nine()).await.unwrap();
    let view = guard.view();
    guard.unlock().await.unwrap();
    assert_eq!(view.state(), LockState::Released);
    assert!(!view.is_valid());
    let never = tokio::time::timeout(secs(60), view.lost()).await;
    assert!(never.is_err(), "a release is no loss");
}

/// A store that announces losses.
#[derive(Debug)]
struct Announcing {
    info: BackendInfo,
    store: MemoryBackend,
    loss: Notify,
    /// How long an answer to an attempt takes.
    slowness: Duration,
    listened: AtomicUsize,
}

impl Announcing {
    fn new(slowness: Duration) -> Arc<Self> {
        let store = MemoryBackend::new();
        let mut info = store.info().clone();
        info.supports = info.supports.loss_push();
        Arc::new(Self { info, store, loss: Notify::new(), slowness, listened: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl LockBackend for Announcing {
    fn info(&self) -> &BackendInfo {
        &self.info
    }
    fn clock(&self) -> Clock {
        self.store.clock()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let outcome = self.store.try_lock(request).await;
        tokio::time::sleep(self.slowness).await;
        outcome
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.store.renew(lease, ttl).await
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.store.unlock(claim).await
    }
    async fn watch_loss(&self, _: &Lease) -> Result<()> {
        self.listened.fetch_add(1, Ordering::Relaxed);
        self.loss.notified().await;
        Ok(())
    }
    async fn probe(&self) -> Result<Health> {
        self.store.probe().await
    }
}

#[tokio::test(start_paused = true)]
async fn an_announced_loss_is_told_at_once_and_a_false_alarm_does_no_harm() {
    let backend = Announcing::new(Duration::ZERO);
    let client = LockClient::new(Arc::clone(&backend) as Arc<dyn LockBackend>);
    let guard = client.lock_with("k", &nine()).await.unwrap();
    tokio::time::sleep(ms(10)).await;
    backend.loss.notify_waiters();
    tokio::time::sleep(ms(1600)).await;
    assert!(guard.is_valid(), "a false alarm");
    backend.store.expire_now(guard.key());
    let start = tokio::time::Instant::now();
    backend.loss.notify_waiters();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(start.elapsed() <= ms(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn only_a_lock_that_is_held_for_long_is_listened_for_however_slow_its_grant_was() {
    let backend = Announcing::new(secs(1));
    let client = LockClient::new(Arc::clone(&backend) as Arc<dyn LockBackend>);
    for _ in 0..20 {
        let guard = client.lock_with("k", &nine()).await.unwrap();
        tokio::time::sleep(ms(150)).await;
        guard.unlock().await.unwrap();
    }
    assert_eq!(backend.listened.load(Ordering::Relaxed), 0);
    let guard = client.lock_with("k", &nine()).await.unwrap();
    crate::rig::until("it is listened for", || backend.listened.load(Ordering::Relaxed) == 1).await;
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn b020_asking_a_guard_waits_for_nobody() {
    let (store, spy, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.faults().silence(true);
    // A renewal hangs in the store, and nothing else on this thread runs while the guard is asked.
    crate::rig::until("a renewal is on its way", || spy.count(Operation::Renew) > 0).await;
    spy.forget();
    let (valid_until, start) = (guard.valid_until(), tokio::time::Instant::now());
    for _ in 0..100_000 {
        assert!(guard.is_valid() && guard.valid_until() == valid_until && !guard.remaining().is_zero());
    }
    assert_eq!(guard.state(), LockState::Held);
    assert_eq!(start.elapsed(), ms(0));
    assert_eq!(spy.calls.lock().unwrap().len(), 0, "the store was not asked");
}
