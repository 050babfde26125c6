//! Rule 12: idle keys leave nothing behind, in store or client.

use std::sync::Arc;

use distlock_core::{ErrorKind, LockBackend, LockClient, MemoryBackend, Operation, WaitPolicy};

use crate::rig::{kind, ms, nine, rig, secs, until, waiting_up_to};

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

/// A hundred callers, each with a key of its own, and a store that answers nothing for a minute: what their attempts leave
/// behind must not be what keeps it from its work. Each try to sweep then lasts for the call limit, 150 ms, or longer.
#[tokio::test(start_paused = true)]
async fn what_failed_attempts_leave_is_swept_one_by_one_while_nothing_is_answered() {
    let (store, spy, client) = rig();
    let options = nine().ttl(ms(900)).wait(WaitPolicy::No);
    store.faults().silence(true);
    let began = tokio::time::Instant::now();
    let callers: Vec<_> = (0..100)
        .map(|n| {
            let (client, options) = (client.clone(), options.clone());
            tokio::spawn(async move {
                while began.elapsed() < secs(60) {
                    assert_eq!(
                        kind(client.lock_with(format!("k{n}"), &options).await),
                        ErrorKind::Unavailable
                    );
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let (attempts, sweeps) = (spy.count(Operation::TryLock), spy.count(Operation::Unlock));
    // All slots, half of them, and so on, then one after the other.
    assert!(
        attempts > 20_000 && (100..=64 + 32 + 16 + 8 + 4 + 2 + 400).contains(&sweeps),
        "{sweeps} of {attempts}"
    );
    store.faults().silence(false);
    for n in 0..100 {
        client.lock_with(format!("k{n}"), &options).await.unwrap().unlock().await.unwrap();
    }
    let unreleased = client.shutdown(secs(5)).await;
    assert!(unreleased.is_empty(), "{unreleased:?}");
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
