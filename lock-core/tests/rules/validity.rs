//! Rule 1: validity is local, and counts from before the send.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Claim, Clock, ErrorKind, Guarantees, Health, Lease, LockBackend, LockClient, LockRequest,
    LockState, LostReason, ManualClock, MemoryBackend, Operation, Release, Renewal, Result, Supports,
    TryLock,
};

use crate::rig::{kind, ms, nine, rig, secs, settle, until};

#[tokio::test(start_paused = true)]
async fn a_slow_grant_is_shorter_by_its_travel_time() {
    let (store, _, client) = rig();
    store.faults().delay(Operation::TryLock, secs(1));
    let guard = client.lock_with("k", &nine()).await.unwrap();
    assert_eq!(guard.remaining(), secs(8) - ms(90), "9 s less 1 s on the way, less the margin of 1 %");
}

#[tokio::test(start_paused = true)]
async fn a_slow_renewal_counts_from_its_send() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.faults().delay(Operation::Renew, secs(1));
    guard.renew().await.unwrap();
    assert_eq!(guard.remaining(), secs(8) - ms(90));
}

#[tokio::test(start_paused = true)]
async fn past_its_validity_a_lock_is_lost_whatever_the_store_says() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine().renew(distlock_core::RenewPolicy::Manual)).await.unwrap();
    tokio::time::advance(secs(9) - ms(90)).await;
    assert_eq!(guard.state(), LockState::Lost(LostReason::Expired));
    assert!(!guard.is_valid());
    assert_eq!(guard.remaining(), Duration::ZERO);
    // The store still has it for the length of the margin, and would even renew it.
    let record = store.admin().unwrap().inspect(guard.key()).await.unwrap().unwrap();
    assert_eq!(record.holders[0].owner, guard.owner());
    assert_eq!(kind(guard.renew().await), ErrorKind::Lost);
    assert!(!guard.is_valid(), "a lock once lost never comes back");
}

/// Grants everything, and moves the clock while it does: as if the machine were suspended.
#[derive(Debug)]
struct Suspending {
    info: BackendInfo,
    clock: Clock,
    hand: ManualClock,
    suspend: Duration,
    store: MemoryBackend,
}

#[async_trait]
impl LockBackend for Suspending {
    fn info(&self) -> &BackendInfo {
        &self.info
    }
    fn clock(&self) -> Clock {
        self.clock.clone()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let outcome = self.store.try_lock(request).await;
        self.hand.advance(self.suspend);
        outcome
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.store.renew(lease, ttl).await
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.store.unlock(claim).await
    }
    async fn probe(&self) -> Result<Health> {
        self.store.probe().await
    }
}

fn suspending(suspend: Duration) -> (ManualClock, Arc<Suspending>, LockClient) {
    let (clock, hand) = Clock::manual();
    let backend = Arc::new(Suspending {
        info: BackendInfo::new("suspending", Guarantees::single_process(), Supports::NONE),
        store: MemoryBackend::with_clock(clock.clone()),
        clock,
        hand: hand.clone(),
        suspend,
    });
    let client = LockClient::new(Arc::clone(&backend) as Arc<dyn LockBackend>);
    (hand, backend, client)
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_too_late_is_given_back() {
    let (_, backend, client) = suspending(secs(20));
    assert_eq!(kind(client.try_lock_with("k", &nine()).await), ErrorKind::TooSlow);
    until("the late grant is swept", || backend.store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumped_is_noticed_within_a_tenth_of_the_ttl() {
    let (hand, _, client) = suspending(Duration::ZERO);
    let options = distlock_core::LockOptions::default().ttl(secs(1));
    let guard = client.lock_with("k", &options).await.unwrap();
    let view = guard.view();
    let watcher = tokio::spawn(async move { view.lost().await });
    // The background task and the watcher have planned their next look by now.
    settle().await;
    let before = tokio::time::Instant::now();
    // Timers see nothing of it: only the lease's own clock moves.
    hand.advance(secs(5));
    assert_eq!(watcher.await.unwrap(), LostReason::Expired);
    assert!(before.elapsed() <= ms(101), "{:?}", before.elapsed());
}
