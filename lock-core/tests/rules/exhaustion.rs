//! Rule 12: idle keys leave nothing behind, in store or client.

use std::sync::Arc;

use distlock_core::{ErrorKind, LockBackend, LockClient, MemoryBackend, Operation, WaitPolicy};

use crate::rig::{ms, nine, rig, secs, until, waiting_up_to};

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_idle_keys_cost_nothing() {
    let (store, _, client) = rig();
    for n in 0..100_000 {
        client.lock_with(format!("k{n}"), &nine()).await.unwrap().unlock().await.unwrap();
    }
    assert_eq!(store.records(), 0);
}

#[tokio::test(start_paused = true)]
async fn short_waits_leave_no_residue() {
    let (store, _, client) = rig();
    let other = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let held = client.lock_with("k", &nine()).await.unwrap();
    for _ in 0..1000 {
        let patience = nine().wait(WaitPolicy::UpTo(ms(fastrand::u64(0..3))));
        let _ = tokio::time::timeout(ms(fastrand::u64(0..3)), other.lock_with("k", &patience)).await;
    }
    until("all left the queue", || {
        futures_util::FutureExt::now_or_never(async {
            client.admin().unwrap().inspect(held.key()).await.unwrap().unwrap().waiters == Some(0)
        }) == Some(true)
    })
    .await;
    held.unlock().await.unwrap();
    until("nothing is left", || store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_in_a_loop_leaves_nothing() {
    let store = Arc::new(MemoryBackend::new());
    let client = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let held = client.lock_with("k", &nine()).await.unwrap();
    for _ in 0..1000 {
        assert!(client.try_lock("k").await.unwrap().is_none());
    }
    held.unlock().await.unwrap();
    assert_eq!(store.records(), 0);
}

/// Two hundred waiters, a call limit of 1.5 s, and a store that answers nothing: they ask in turn, and so do the sweeps.
#[tokio::test(start_paused = true)]
async fn b033_a_store_that_does_not_keep_up_is_asked_no_faster() {
    let (store, spy, client) = rig();
    let held = client.lock_with("held", &nine()).await.unwrap();
    store.faults().silence(true);
    spy.forget();
    let waiters: Vec<_> = (0..200)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.lock_with("k", &waiting_up_to(secs(600))).await })
        })
        .collect();
    tokio::time::sleep(secs(30)).await;
    assert!(!held.is_valid());
    for operation in [Operation::TryLock, Operation::Renew, Operation::Unlock] {
        let calls = spy.count(operation);
        assert!(calls <= 150, "{calls} times {operation:?} in 30 s");
    }
    store.faults().silence(false);
    // Who stood at the head of the line for long was told; the rest are served.
    for waiter in waiters {
        match waiter.await.unwrap() {
            Ok(guard) => drop(guard.unlock().await.unwrap()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
    client.lock_with("k", &nine()).await.unwrap().unlock().await.unwrap();
    drop(held);
    until("nothing is left", || store.records() == 0).await;
}
