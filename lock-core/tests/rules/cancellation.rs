//! Rule 4: whatever future is dropped wherever, nothing stays behind.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Claim, Clock, Health, Lease, LockBackend, LockClient, LockOptions, LockRequest,
    MemoryBackend, Operation, Release, Renewal, Result, TryLock,
};

use crate::rig::{ms, nine, rig, secs, settle, until, waiting_up_to};

/// Polls `future` up to `polls` times, then drops it; `None` if it was not done by then.
async fn poll_then_drop<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_await_point_leaves_nothing() {
    let (store, spy, client) = rig();
    spy.yields.store(3, Ordering::Relaxed);
    let mut completed = false;
    for polls in 1..40 {
        completed = poll_then_drop(client.lock_with("k", &nine()), polls).await.is_some();
        until("the record is gone", || store.records() == 0).await;
        spy.forget();
        tokio::time::sleep(secs(20)).await;
        assert_eq!(spy.count(Operation::Renew), 0, "dropped after {polls} polls, and renewed by nobody");
        assert_eq!(store.records(), 0);
        if completed {
            break;
        }
    }
    assert!(completed, "the last round ran to its end");
}

#[tokio::test(start_paused = true)]
async fn a_try_dropped_at_any_await_point_leaves_nothing() {
    let (store, spy, client) = rig();
    spy.yields.store(3, Ordering::Relaxed);
    for polls in 1..12 {
        let _ = poll_then_drop(client.try_lock_with("k", &nine()), polls).await;
        until("the record is gone", || store.records() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_dropped_at_any_await_point_still_releases() {
    let (store, spy, client) = rig();
    spy.yields.store(3, Ordering::Relaxed);
    for polls in 0..12 {
        let guard = client.lock_with("k", &nine()).await.unwrap();
        let _ = poll_then_drop(guard.unlock(), polls).await;
        until("the record is gone", || store.records() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_dropped_at_any_await_point_loses_nobody() {
    let (store, spy, client) = rig();
    for polls in 0..14 {
        let guard = client.lock_with("k", &nine()).await.unwrap();
        let waiter = tokio::spawn({
            let client = client.clone();
            async move { client.lock_with("k", &nine()).await }
        });
        settle().await;
        spy.yields.store(3, Ordering::Relaxed);
        let _ = poll_then_drop(guard.unlock(), polls).await;
        let next = waiter.await.unwrap().unwrap();
        assert!(next.is_valid());
        // Late sweeps of the abandoned hand-over must not hit the next holder.
        tokio::time::sleep(secs(10)).await;
        assert!(next.is_valid(), "after {polls} polls");
        next.unlock().await.unwrap();
        until("the record is gone", || store.records() == 0).await;
        spy.yields.store(0, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_handed_over_to_one_who_left_is_released() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let waiter = |client: &LockClient| {
        let client = client.clone();
        tokio::spawn(async move { client.lock_with("k", &nine()).await })
    };
    let (leaves, stays) = (waiter(&client), waiter(&client));
    settle().await;
    guard.unlock().await.unwrap();
    // Handed over, but its task has not run since.
    leaves.abort();
    let start = tokio::time::Instant::now();
    let next = stays.await.unwrap().unwrap();
    assert!(next.is_valid() && start.elapsed() < secs(1));
    next.unlock().await.unwrap();
    until("nothing is left", || store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_leaves_the_queue() {
    let (store, _, client) = rig();
    let other = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let guard = client.lock_with("k", &nine()).await.unwrap();
    for wait in [ms(1), ms(50), secs(2)] {
        assert!(other.lock_with("k", &waiting_up_to(wait)).await.unwrap_err().is_wait_timeout());
        let record = client.admin().unwrap().inspect(guard.key()).await.unwrap().unwrap();
        assert_eq!(record.waiters, Some(0), "it has left before the call returned");
        let _ = tokio::time::timeout(wait, other.lock_with("k", &nine())).await;
    }
    settle().await;
    let record = client.admin().unwrap().inspect(guard.key()).await.unwrap().unwrap();
    assert_eq!(record.waiters, Some(0));
    guard.unlock().await.unwrap();
    until("nothing is left", || store.records() == 0).await;
}

/// A store where a dropped attempt lands all the same, only later.
#[derive(Debug)]
struct Late(Arc<MemoryBackend>, Duration);

#[async_trait]
impl LockBackend for Late {
    fn info(&self) -> &BackendInfo {
        self.0.info()
    }
    fn clock(&self) -> Clock {
        self.0.clock()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let (store, late, request) = (Arc::clone(&self.0), self.1, request.clone());
        let landing = tokio::spawn(async move {
            tokio::time::sleep(late).await;
            store.try_lock(&request).await
        });
        landing.await.unwrap()
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.0.renew(lease, ttl).await
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.0.unlock(claim).await
    }
    async fn probe(&self) -> Result<Health> {
        self.0.probe().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_lands_after_its_withdrawal_is_swept_again() {
    let store = Arc::new(MemoryBackend::new());
    let client = LockClient::new(Arc::new(Late(Arc::clone(&store), ms(700))));
    let dropped = tokio::time::timeout(ms(100), client.lock_with("k", &nine())).await;
    assert!(dropped.is_err());
    tokio::time::sleep(ms(650)).await;
    assert_eq!(store.records(), 1, "it landed late");
    until("the second sweep finds it", || store.records() == 0).await;
    let start = tokio::time::Instant::now();
    assert!(client.try_lock_with("k", &nine()).await.unwrap().is_some());
    assert!(start.elapsed() < secs(2));
}

#[tokio::test(start_paused = true)]
async fn many_withdrawals_hold_up_no_release() {
    let (_, _, client) = rig();
    let _held = client.lock_with("held", &nine()).await.unwrap();
    let other = LockClient::new(Arc::clone(client.backend()));
    for _ in 0..500 {
        let _ = tokio::time::timeout(ms(1), other.lock_with("held", &nine())).await;
    }
    let guard = other.lock_with("k", &nine()).await.unwrap();
    let key = guard.key().clone();
    drop(guard);
    let start = tokio::time::Instant::now();
    while client.admin().unwrap().inspect(&key).await.unwrap().is_some() {
        tokio::time::sleep(ms(10)).await;
    }
    assert!(start.elapsed() < ms(100), "free after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn releases_survive_a_store_that_is_down_for_a_while() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine().ttl(secs(300))).await.unwrap();
    store.faults().silence(true);
    drop(guard);
    tokio::time::sleep(secs(60)).await;
    store.faults().silence(false);
    let start = tokio::time::Instant::now();
    until("released once the store is back", || store.records() == 0).await;
    assert!(start.elapsed() < secs(4), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_as_the_lock_is_handed_to_it_leaves_nothing() {
    let (store, _spy, client) = rig();
    let holder = client.lock_with("k", &nine()).await.unwrap();
    let options = nine();
    let mut waiter = Box::pin(client.lock_with("k", &options));
    let waits = std::future::poll_fn(|context| Poll::Ready(waiter.as_mut().poll(context).is_pending())).await;
    assert!(waits, "it stands in line");
    holder.unlock().await.unwrap();
    // The grant is on its way to it, and it never looks.
    drop(waiter);
    until("the record is gone", || store.records() == 0).await;
    let next = client.try_lock("k").await.unwrap();
    assert!(next.is_some(), "the turn has gone on too");
}

#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_is_swept_for_as_long_as_the_store_keeps_it() {
    let (store, _, client) = rig();
    let held = client.lock_with("k", &nine()).await.unwrap();
    let brief = LockOptions::default().ttl(ms(300));
    let waited = tokio::time::timeout(ms(100), client.lock_with("k", &brief));
    assert!(waited.await.is_err(), "it waits in the queue");
    // Longer than the attempt's ttl, shorter than the place's life.
    store.faults().silence(true);
    tokio::time::sleep(secs(3)).await;
    store.faults().silence(false);
    held.unlock().await.unwrap();
    tokio::time::sleep(ms(1500)).await;
    let other = LockClient::new(store as Arc<dyn LockBackend>);
    assert!(other.try_lock("k").await.unwrap().is_some(), "the place blocks nobody");
}
