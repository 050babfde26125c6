//! Shutdown drains, and says what it could not release.

use distlock_core::{ErrorKind, LockState, LostReason, Operation};

use crate::rig::{kind, nine, rig, secs, settle};

#[tokio::test(start_paused = true)]
async fn it_releases_everything_and_tells_the_holders() {
    let (store, _, client) = rig();
    let live = client.lock_with("live", &nine()).await.unwrap();
    drop(client.lock_with("dropped", &nine()).await.unwrap());
    assert!(client.shutdown(secs(5)).await.is_empty());
    assert_eq!(store.records(), 0);
    assert_eq!(live.state(), LockState::Lost(LostReason::Shutdown));
    assert_eq!(kind(client.lock("k").await), ErrorKind::Shutdown);
    assert_eq!(kind(client.try_lock("k").await), ErrorKind::Shutdown);
}

#[tokio::test(start_paused = true)]
async fn it_ends_in_time_and_names_what_is_left() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let owner = guard.owner();
    store.faults().silence(true);
    drop(guard);
    let start = tokio::time::Instant::now();
    let left = client.shutdown(secs(2)).await;
    assert!(start.elapsed() < secs(3), "{:?}", start.elapsed());
    assert_eq!(left.claims.len(), 1);
    assert_eq!(left.claims[0].owner, owner);
}

#[tokio::test(start_paused = true)]
async fn waiters_are_sent_away() {
    let (_, _, client) = rig();
    let _held = client.lock_with("k", &nine()).await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.lock_with("k", &nine()).await })
        })
        .collect();
    settle().await;
    client.shutdown(secs(5)).await;
    for waiter in waiters {
        assert_eq!(kind(waiter.await.unwrap()), ErrorKind::Shutdown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_under_way_gets_no_guard_and_leaves_nothing() {
    let (store, _, client) = rig();
    store.faults().delay_reply(Operation::TryLock, secs(1));
    let late = tokio::spawn({
        let client = client.clone();
        async move { client.try_lock_with("k", &nine()).await }
    });
    settle().await;
    assert_eq!(store.records(), 1, "granted, and the answer is on its way");
    assert!(client.shutdown(secs(5)).await.is_empty());
    assert_eq!(kind(late.await.unwrap()), ErrorKind::Shutdown);
    assert_eq!(store.records(), 0);
}
