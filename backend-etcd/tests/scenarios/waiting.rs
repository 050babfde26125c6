//! Waiters that are not woken, or told that they have what they have not.

use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::Proxy;
use distlock_core::{LockBackend, LockClient, LockOptions, TryLock, WaitPolicy};
use distlock_etcd::{EtcdBackend, EtcdConfig};

use crate::support::{FAST, Server, busy, eventually, queued, records, request, take, tests};

tests! {
    b042_the_body_does_not_run_without_the_lock,
    b057_a_release_between_the_look_and_the_watch_is_not_missed,
    b057_nor_is_one_that_was_compacted_by_then,
    b058_a_waiter_whose_lease_is_gone_queues_again,
    b070_a_waiter_whose_lease_is_gone_is_not_told_that_it_has_the_lock,
    b071_of_three_waiters_only_one_gets_the_lock,
    a_waiter_that_gives_up_in_the_middle_lets_nobody_in,
}

const TTL: Duration = Duration::from_secs(60);
const AMPLE: Duration = Duration::from_secs(20);

async fn b042_the_body_does_not_run_without_the_lock() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    take(&backend, &request("key", TTL)).await;
    let client = LockClient::new(Arc::new(server.backend().await));
    let options = LockOptions::default().wait(WaitPolicy::UpTo(Duration::from_millis(500)));
    let mut ran = false;
    let error = client.with_lock_with("key", &options, |_| async { ran = true }).await.unwrap_err();
    assert!(error.is_wait_timeout() && !ran, "{error}");
}

async fn b057_a_release_between_the_look_and_the_watch_is_not_missed() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    for turn in 0..20 {
        let (holder, waiter) = (request("key", TTL), queued("key", TTL));
        take(&one, &holder).await;
        let seen = busy(&two, &waiter).await;
        one.unlock(&holder.claim).await.unwrap();
        // In the first turn the watch is not even open.
        tokio::time::timeout(AMPLE, two.watch_release(&waiter.claim, &seen)).await.expect("a hint").unwrap();
        take(&two, &waiter).await;
        two.unlock(&waiter.claim).await.unwrap();
        assert!(turn < 20);
    }
}

async fn b057_nor_is_one_that_was_compacted_by_then() {
    let server = Server::start(FAST).await;
    let proxy = Proxy::start(server.address()).unwrap();
    let one = server.backend().await;
    let two = EtcdBackend::connect(EtcdConfig::new([proxy.address().to_string()])).await.unwrap();
    // Opens the watch, which then hears all that follows.
    let (holder, waiter) = (request("before", TTL), queued("before", TTL));
    take(&one, &holder).await;
    let seen = busy(&two, &waiter).await;
    let released = async { one.unlock(&holder.claim).await.unwrap() };
    let (hint, _) = tokio::join!(two.watch_release(&waiter.claim, &seen), released);
    hint.unwrap();
    take(&two, &waiter).await;
    let (holder, waiter) = (request("key", TTL), queued("key", TTL));
    take(&one, &holder).await;
    let seen = busy(&two, &waiter).await;
    let two = Arc::new(two);
    let waiting = tokio::spawn({
        let (two, claim) = (Arc::clone(&two), waiter.claim.clone());
        async move { two.watch_release(&claim, &seen).await }
    });
    // Until it has heard something to go on from.
    let connections = proxy.traffic();
    let other = take(&one, &request("other", TTL)).await;
    one.unlock(&other.claim).await.unwrap();
    eventually("the watch hears", async || proxy.traffic().to_client > connections.to_client).await;
    proxy.refuse().await;
    proxy.reset().await;
    one.unlock(&holder.claim).await.unwrap();
    let mut raw = server.raw().await;
    let mut last = 0;
    for n in 0..20 {
        last = raw.put("elsewhere", n.to_string(), None).await.unwrap().header().unwrap().revision();
    }
    raw.compact(last, None).await.unwrap();
    assert!(!waiting.is_finished(), "it has heard nothing");
    proxy.accept().await;
    tokio::time::timeout(AMPLE, waiting).await.expect("a hint").unwrap().unwrap();
    take(&two, &waiter).await;
}

async fn b058_a_waiter_whose_lease_is_gone_queues_again() {
    let server = Server::start(&[]).await;
    let holder = server.backend().await;
    take(&holder, &request("key", TTL)).await;
    let client = LockClient::new(Arc::new(server.backend().await));
    let waiting = tokio::spawn(async move { client.lock("key").await.map(|guard| guard.token()) });
    let mut raw = server.raw().await;
    eventually("the waiter queues", async || records(&mut raw, "key").await.len() == 2).await;
    let first = records(&mut raw, "key").await.pop().unwrap();
    raw.lease_revoke(first.2).await.unwrap();
    eventually("it queues again", async || records(&mut raw, "key").await.len() == 2).await;
    assert!(!waiting.is_finished(), "the lock is held");
    let holders = records(&mut raw, "key").await;
    raw.lease_revoke(holders[0].2).await.unwrap();
    tokio::time::timeout(AMPLE, waiting).await.expect("it is its turn").unwrap().unwrap();
}

async fn b070_a_waiter_whose_lease_is_gone_is_not_told_that_it_has_the_lock() {
    let server = Server::start(FAST).await;
    let (one, two) = (server.backend().await, server.backend().await);
    let (holder, waiter) = (request("key", TTL), queued("key", Duration::from_secs(2)));
    let held = take(&one, &holder).await;
    busy(&two, &waiter).await;
    let mut raw = server.raw().await;
    // It stands still, and nobody renews what it has.
    eventually("the waiter's record is gone", async || records(&mut raw, "key").await.len() == 1).await;
    busy(&two, &waiter).await;
    one.unlock(&holder.claim).await.unwrap();
    let lease = take(&two, &waiter).await;
    assert!(lease.token > held.token && lease.valid_until > two.clock().now());
    // The same with the lock free, and taken by another one meanwhile.
    two.unlock(&waiter.claim).await.unwrap();
    take(&one, &holder).await;
    busy(&two, &waiter).await;
    eventually("the waiter's record is gone", async || records(&mut raw, "key").await.len() == 1).await;
    one.unlock(&holder.claim).await.unwrap();
    take(&one, &request("key", TTL)).await;
    busy(&two, &waiter).await;
}

async fn b071_of_three_waiters_only_one_gets_the_lock() {
    let server = Server::start(&[]).await;
    let backends = [server.backend().await, server.backend().await, server.backend().await];
    let [one, two, three] = [request("key", TTL), queued("key", TTL), queued("key", TTL)];
    take(&backends[0], &one).await;
    busy(&backends[1], &two).await;
    busy(&backends[2], &three).await;
    let mut raw = server.raw().await;
    let second = records(&mut raw, "key").await[1].2;
    raw.lease_revoke(second).await.unwrap();
    // Woken in the middle, the third is not fooled.
    busy(&backends[2], &three).await;
    backends[0].unlock(&one.claim).await.unwrap();
    take(&backends[2], &three).await;
    busy(&backends[1], &two).await;
}

async fn a_waiter_that_gives_up_in_the_middle_lets_nobody_in() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    let [holder, middle, last] = [request("key", TTL), queued("key", TTL), queued("key", TTL)];
    take(&one, &holder).await;
    busy(&one, &middle).await;
    let seen = busy(&two, &last).await;
    one.unlock(&middle.claim).await.unwrap();
    tokio::time::timeout(AMPLE, two.watch_release(&last.claim, &seen)).await.expect("a hint").unwrap();
    assert!(matches!(two.try_lock(&last).await.unwrap(), TryLock::Busy(_)), "the holder is still there");
    one.unlock(&holder.claim).await.unwrap();
    take(&two, &last).await;
}
