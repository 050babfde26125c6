//! Rule 6: notifications are hints; waits end by time as well, and at their deadline.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    ErrorKind, LockBackend, LockClient, LockOptions, MemoryBackend, Metadata, Operation, Queueing, WaitPolicy,
};

use crate::rig::{Spy, kind, ms, nine, rig, secs, settle, waiting_up_to};

#[tokio::test(start_paused = true)]
async fn a_release_wakes_the_waiter_at_once() {
    let (store, _, client) = rig();
    let other = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let waiter = tokio::spawn(async move { other.lock_with("k", &nine()).await.unwrap() });
    tokio::time::sleep(secs(2)).await;
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    let _guard = waiter.await.unwrap();
    assert_eq!(start.elapsed(), ms(0));
}

/// How long after the release a waiter that has waited for so long and hears no hints gets the lock.
async fn served_without_hints_after(wait: Duration, options: LockOptions) -> Duration {
    let store = Arc::new(MemoryBackend::new());
    let holder = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let deaf = LockClient::new(Spy::muted(&store));
    let guard = holder.lock_with("k", &nine()).await.unwrap();
    let waiter = tokio::spawn(async move { deaf.lock_with("k", &options).await.unwrap() });
    tokio::time::sleep(wait).await;
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    let _guard = waiter.await.unwrap();
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn with_all_hints_lost_the_waiter_still_gets_it_within_a_poll() {
    for seconds in [2, 20] {
        let outside = served_without_hints_after(secs(seconds), nine().queue(Queueing::Never)).await;
        assert!(outside <= ms(1000), "{outside:?}");
        let inside = served_without_hints_after(secs(seconds), nine()).await;
        assert!(inside <= secs(3), "a third of the ttl, so that its place is kept: {inside:?}");
    }
    let long = || nine().ttl(secs(600));
    let soon = served_without_hints_after(ms(1500), long()).await;
    assert!(soon <= ms(3000), "about as long again as it has waited: {soon:?}");
    let late = served_without_hints_after(secs(300), long()).await;
    assert!(late <= secs(10), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_kept_is_asked_for_rarely() {
    let (store, spy, client) = rig();
    let options = nine().ttl(secs(60)).queue(Queueing::Strict);
    let holder = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let guard = holder.lock_with("k", &options).await.unwrap();
    let waits = |client: &LockClient| {
        let (client, options) = (client.clone(), options.clone());
        async move { client.lock_with("k", &options).await.unwrap().unlock().await.unwrap() }
    };
    let waiters: Vec<_> = (0..100).map(|_| tokio::spawn(waits(&client))).collect();
    tokio::time::sleep(secs(60)).await;
    // A poll that is due at this very moment belongs to the minute.
    settle().await;
    let asked = spy.count(Operation::TryLock);
    // Each once when it comes, and then every five to ten seconds.
    assert!((700..=1300).contains(&asked), "{asked} attempts in a minute of a hundred waiters");
    spy.forget();
    guard.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(spy.count(Operation::TryLock), 100, "each hand-over is one attempt");
}

#[tokio::test(start_paused = true)]
async fn a_lost_hint_far_behind_is_made_up_for() {
    let store = Arc::new(MemoryBackend::new());
    let options = nine().ttl(secs(60)).queue(Queueing::Strict);
    let holder = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let guard = holder.lock_with("k", &options).await.unwrap();
    let deaf = LockClient::new(Spy::muted(&store));
    let waiters: Vec<_> = (0..5)
        .map(|_| {
            let (deaf, options) = (deaf.clone(), options.clone());
            tokio::spawn(async move { deaf.lock_with("k", &options).await.unwrap().unlock().await.unwrap() })
        })
        .collect();
    tokio::time::sleep(secs(30)).await;
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    // Each of them after the one in front, and none before its own poll.
    assert!(start.elapsed() <= secs(5 * 10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_blocks_no_longer_than_its_ttl() {
    let (_, _, client) = rig();
    std::mem::forget(client.lock_with("k", &nine().renew(distlock_core::RenewPolicy::Manual)).await.unwrap());
    let start = tokio::time::Instant::now();
    let _guard = client.lock_with("k", &nine()).await.unwrap();
    assert!(start.elapsed() <= secs(9) + ms(10), "{:?}", start.elapsed());
    assert!(start.elapsed() >= secs(9) - ms(100), "not before: {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn patience_ends_at_its_deadline_and_says_who_holds_it() {
    let (_, _, client) = rig();
    let metadata = Metadata::new([("job", "nightly")]).unwrap();
    let guard = client.lock_with("k", &nine().metadata(metadata)).await.unwrap();
    for (options, least) in [(waiting_up_to(secs(2)), 2), (nine().wait(WaitPolicy::No), 0)] {
        let start = tokio::time::Instant::now();
        let error = client.lock_with("k", &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WaitTimeout);
        assert!(start.elapsed() >= secs(least) && start.elapsed() < secs(least) + ms(10));
        let holder = error.busy().unwrap().holder.clone().unwrap();
        assert_eq!((holder.owner, holder.token), (guard.owner(), guard.token()));
        assert!(error.to_string().contains(&guard.token().to_string()), "{error}");
    }
    let stranger = LockClient::new(Arc::clone(client.backend()));
    let error = stranger.lock_with("k", &waiting_up_to(ms(10))).await.unwrap_err();
    assert!(error.to_string().contains("job=nightly"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn ttl_and_patience_are_different_things() {
    let (_, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.lock_with("k", &nine().ttl(secs(1)).wait(WaitPolicy::UpTo(secs(10)))).await.unwrap() }
    });
    tokio::time::sleep(secs(4)).await;
    guard.unlock().await.unwrap();
    let late = waiter.await.unwrap();
    assert_eq!(late.remaining(), secs(1) - ms(10), "the whole ttl, counted from the attempt that succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_lost_race_goes_on_to_its_deadline() {
    let (_, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            // Clients of their own, so that all of them contend in the store.
            let client = LockClient::new(Arc::clone(client.backend()));
            tokio::spawn(async move {
                let guard = client.lock_with("k", &waiting_up_to(secs(5))).await.unwrap();
                tokio::time::sleep(ms(100)).await;
                guard.unlock().await.unwrap();
            })
        })
        .collect();
    tokio::time::sleep(secs(1)).await;
    guard.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_try_passes_no_waiter_here_or_elsewhere() {
    let (store, _, client) = rig();
    let other = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.lock_with("k", &nine()).await.unwrap() }
    });
    settle().await;
    drop(guard);
    assert!(client.try_lock("k").await.unwrap().is_none(), "a waiter of the same client goes first");
    let held = waiter.await.unwrap();
    let waiter = tokio::spawn(async move { other.lock_with("k", &nine()).await.unwrap() });
    settle().await;
    held.unlock().await.unwrap();
    assert!(client.try_lock("k").await.unwrap().is_none(), "a waiter of another client goes first");
    let _guard = waiter.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_plain_try_passes_no_local_waiter_even_if_the_store_knows_of_none() {
    let (_, spy, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.lock_with("k", &nine().queue(Queueing::Never)).await.unwrap() }
    });
    settle().await;
    spy.forget();
    // Free in the store, and its next holder has not run yet.
    client.admin().unwrap().force_unlock(guard.key()).await.unwrap();
    assert!(client.try_lock("k").await.unwrap().is_none());
    assert_eq!(spy.count(Operation::TryLock), 0);
    drop(guard);
    let _guard = waiter.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bad_keys_and_options_fail_before_any_io() {
    let (_, spy, client) = rig();
    assert_eq!(kind(client.lock("").await), ErrorKind::InvalidKey);
    assert_eq!(kind(client.try_lock(vec![0; 513]).await), ErrorKind::InvalidKey);
    assert_eq!(kind(client.lock_with("k", &nine().ttl(ms(0))).await), ErrorKind::InvalidOptions);
    assert_eq!(spy.count(Operation::TryLock), 0);
}
