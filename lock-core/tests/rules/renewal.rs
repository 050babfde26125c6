//! Rule 3: renewal belongs to one guard, in batches, and ends with it.

use std::sync::Arc;

use distlock_core::{ErrorKind, LockOptions, LostReason, Operation, Release, RenewPolicy};

use crate::rig::{ms, nine, rig, secs, until};

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_renewed_every_third_of_its_ttl_and_lasts() {
    let (_, spy, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let token = guard.token();
    tokio::time::sleep(secs(90)).await;
    assert!(guard.is_valid());
    assert_eq!(guard.token(), token, "a renewal keeps the token");
    let renewals = spy.calls_of(Operation::Renew);
    assert!(renewals.len() >= 29, "{}", renewals.len());
    for pair in renewals.windows(2) {
        assert!(pair[1].at.since(pair[0].at) <= secs(3) + ms(2));
    }
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn no_renewal_follows_unlock_drop_panic_or_abort() {
    let (store, spy, client) = rig();
    let ended = client.lock_with("unlocked", &nine()).await.unwrap();
    ended.unlock().await.unwrap();
    drop(client.lock_with("dropped", &nine()).await.unwrap());
    let (one, two) = (client.clone(), client.clone());
    let panicked = tokio::spawn(async move {
        let _guard = one.lock_with("panicked", &nine()).await.unwrap();
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    let aborted = tokio::spawn(async move {
        let _guard = two.lock_with("aborted", &nine()).await.unwrap();
        std::future::pending::<()>().await;
    });
    until("it is held", || store.records() > 0).await;
    aborted.abort();
    until("all is released", || store.records() == 0).await;
    spy.forget();
    tokio::time::sleep(secs(60)).await;
    assert_eq!(spy.count(Operation::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_grant_after_a_loss_is_renewed_again() {
    let (store, spy, client) = rig();
    let first = client.lock_with("k", &nine()).await.unwrap();
    store.expire_now(first.key());
    first.lost().await;
    let second = client.lock_with("k", &nine()).await.unwrap();
    spy.forget();
    tokio::time::sleep(secs(36)).await;
    assert!(second.is_valid() && spy.count(Operation::Renew) >= 11);
}

#[tokio::test(start_paused = true)]
async fn many_locks_are_renewed_together() {
    let (_, spy, client) = rig();
    let mut guards = Vec::new();
    for n in 0..1000 {
        guards.push(client.lock_with(format!("k{n}"), &nine()).await.unwrap());
        if n % 10 == 0 {
            tokio::time::sleep(ms(1)).await;
        }
    }
    spy.forget();
    tokio::time::sleep(secs(9)).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
    let calls = spy.count(Operation::Renew);
    assert!((2..=12).contains(&calls), "{calls} calls for 1000 locks in one ttl");
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_are_repeated_before_the_lock_is_lost() {
    let (store, spy, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    for _ in 0..5 {
        store.faults().fail(Operation::Renew, ErrorKind::Unavailable);
    }
    tokio::time::sleep(secs(20)).await;
    assert!(guard.is_valid());
    assert!(spy.count(Operation::Renew) >= 8);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_or_a_duplicate_does_no_harm() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.faults().drop_reply(Operation::Renew);
    store.faults().duplicate(Operation::Renew);
    tokio::time::sleep(secs(20)).await;
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_end_revives_nothing() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine().renew(RenewPolicy::Manual)).await.unwrap();
    tokio::time::sleep(ms(8500)).await;
    store.faults().delay_reply(Operation::Renew, secs(1));
    assert!(guard.renew().await.unwrap_err().is_lost(), "the answer came after the lock's time");
    assert!(!guard.is_valid(), "somebody else may have held it in between");
}

#[tokio::test(start_paused = true)]
async fn a_short_renewal_never_shortens_the_lease() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine().renew(RenewPolicy::Manual)).await.unwrap();
    let view = guard.view();
    let lease = guard.into_lease();
    distlock_core::LockBackend::renew(&*store, &lease, ms(10)).await.unwrap();
    let record = client.admin().unwrap().inspect(view.key()).await.unwrap().unwrap();
    assert!(record.holders[0].expires_in.unwrap() > secs(8));
}

#[tokio::test(start_paused = true)]
async fn manual_renewal_is_left_to_the_holder() {
    let (_, spy, client) = rig();
    let guard = client.lock_with("k", &nine().renew(RenewPolicy::Manual)).await.unwrap();
    tokio::time::sleep(secs(5)).await;
    guard.renew().await.unwrap();
    tokio::time::sleep(secs(5)).await;
    assert!(guard.is_valid());
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert_eq!(spy.count(Operation::Renew), 1);
}

#[tokio::test(start_paused = true)]
async fn the_longest_hold_stops_renewal_and_releases_nothing() {
    let (store, spy, client) = rig();
    let guard = client.lock_with("k", &nine().max_hold(secs(10))).await.unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    assert!(start.elapsed() >= secs(10) && start.elapsed() <= secs(19), "{:?}", start.elapsed());
    assert_eq!(spy.count(Operation::Unlock), 0);
    drop(guard);
    until("the record goes with the guard", || store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn contradictory_settings_are_refused_before_any_io() {
    let (_, spy, client) = rig();
    let rare = LockOptions::default().ttl(secs(9)).renew(RenewPolicy::Every(secs(4)));
    let error = client.lock_with("k", &rare).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    assert!(error.to_string().contains("3s") && error.to_string().contains("4s"), "{error}");
    assert_eq!(spy.count(Operation::TryLock), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_backend_ends_no_other_renewal() {
    #[derive(Debug)]
    struct Panicking(Arc<distlock_core::MemoryBackend>, std::sync::atomic::AtomicBool);
    #[async_trait::async_trait]
    impl distlock_core::LockBackend for Panicking {
        fn info(&self) -> &distlock_core::BackendInfo {
            self.0.info()
        }
        fn clock(&self) -> distlock_core::Clock {
            self.0.clock()
        }
        async fn try_lock(
            &self,
            request: &distlock_core::LockRequest,
        ) -> distlock_core::Result<distlock_core::TryLock> {
            self.0.try_lock(request).await
        }
        async fn renew(
            &self,
            _: &distlock_core::Lease,
            _: std::time::Duration,
        ) -> distlock_core::Result<distlock_core::Renewal> {
            unreachable!("batches only")
        }
        async fn renew_many(
            &self,
            leases: &[distlock_core::Lease],
            ttl: std::time::Duration,
        ) -> Vec<distlock_core::Result<distlock_core::Renewal>> {
            assert!(!self.1.swap(false, std::sync::atomic::Ordering::Relaxed), "on purpose");
            self.0.renew_many(leases, ttl).await
        }
        async fn unlock(&self, claim: &distlock_core::Claim) -> distlock_core::Result<Release> {
            self.0.unlock(claim).await
        }
        async fn probe(&self) -> distlock_core::Result<distlock_core::Health> {
            self.0.probe().await
        }
    }
    let store = Arc::new(distlock_core::MemoryBackend::new());
    let client = distlock_core::LockClient::new(Arc::new(Panicking(store, true.into())));
    let guard = client.lock_with("k", &nine()).await.unwrap();
    tokio::time::sleep(secs(30)).await;
    assert!(guard.is_valid());
}
