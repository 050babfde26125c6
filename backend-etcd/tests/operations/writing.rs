//! Ttls below the server's floor, which are kept by writing.

use std::time::{Duration, Instant};

use distlock_core::{LockBackend, LockClient, LockOptions, LostReason, Release, Renewal, WaitPolicy};

use crate::support::{Server, busy, eventually, queued, records, request, take, tests};

tests! {
    half_a_second_is_half_a_second,
    a_holder_that_writes_is_not_taken_for_dead,
    only_the_waiter_directly_behind_takes_over,
    a_dead_waiter_in_front_holds_up_the_next_for_its_ttl,
    a_plain_try_takes_over_only_where_nobody_waits,
    a_renewal_after_a_takeover_says_lost,
    such_a_lock_outlives_its_lease_s_time,
    a_waiter_with_a_long_ttl_waits_for_a_short_one_too,
    who_counts_writes_hears_of_them_also_if_it_listened_for_deletions_before,
}

/// The server's floor is 2 s with its default elections.
const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);
const AMPLE: Duration = Duration::from_secs(20);

async fn half_a_second_is_half_a_second() {
    let server = Server::start(&[]).await;
    let holder = server.backend().await;
    let sent = holder.clock().now();
    let lease = take(&holder, &request("key", SHORT)).await;
    assert_eq!(lease.ttl, SHORT);
    assert!(lease.valid_until < sent.plus(SHORT));
    let client = LockClient::new(std::sync::Arc::new(server.backend().await));
    let began = Instant::now();
    let options = LockOptions::default().wait(WaitPolicy::UpTo(AMPLE));
    let guard = client.lock_with("key", &options).await.unwrap();
    let waited = began.elapsed();
    eprintln!("a dead holder of {SHORT:?} was succeeded after {waited:?}");
    assert!(holder.clock().now() >= sent.plus(SHORT), "early");
    // A lease alone would have taken 2 s and more.
    assert!(guard.token() > lease.token);
}

async fn a_holder_that_writes_is_not_taken_for_dead() {
    let server = Server::start(&[]).await;
    let holder = LockClient::new(std::sync::Arc::new(server.backend().await));
    let guard = holder.lock_with("key", &LockOptions::default().ttl(SHORT * 2)).await.unwrap();
    let waiter = LockClient::new(std::sync::Arc::new(server.backend().await));
    let wait = LockOptions::default().ttl(SHORT).wait(WaitPolicy::UpTo(SHORT * 10));
    let error = waiter.lock_with("key", &wait).await.unwrap_err();
    assert!(error.is_wait_timeout(), "{error}");
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
}

async fn only_the_waiter_directly_behind_takes_over() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    take(&one, &request("key", SHORT)).await;
    let (first, second) = (queued("key", LONG), queued("key", LONG));
    busy(&one, &first).await;
    // Far longer than the ttl, the second asks, and the first does not.
    let began = Instant::now();
    while began.elapsed() < SHORT * 3 {
        assert_eq!(busy(&two, &second).await.free_in, None, "it is not for the second to count");
        tokio::time::sleep(SHORT / 10).await;
    }
    let limit = Instant::now() + AMPLE;
    let lease = loop {
        match one.try_lock(&first).await.unwrap() {
            distlock_core::TryLock::Acquired(lease) => break lease,
            distlock_core::TryLock::Busy(_) => assert!(Instant::now() < limit),
        }
        tokio::time::sleep(SHORT / 10).await;
    };
    assert!(lease.valid_until > one.clock().now());
    busy(&two, &second).await;
}

async fn a_dead_waiter_in_front_holds_up_the_next_for_its_ttl() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let holder = request("key", LONG);
    take(&backend, &holder).await;
    busy(&backend, &queued("key", SHORT)).await;
    let next = queued("key", SHORT);
    busy(&backend, &next).await;
    backend.unlock(&holder.claim).await.unwrap();
    let began = Instant::now();
    eventually("the next gets it", async || {
        matches!(backend.try_lock(&next).await.unwrap(), distlock_core::TryLock::Acquired(_))
    })
    .await;
    assert!(began.elapsed() >= SHORT, "a waiter that moved up has its ttl to say so");
}

async fn a_plain_try_takes_over_only_where_nobody_waits() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    take(&backend, &request("alone", SHORT)).await;
    let began = Instant::now();
    eventually("a plain try gets it", async || {
        let plain = request("alone", SHORT);
        matches!(backend.try_lock(&plain).await.unwrap(), distlock_core::TryLock::Acquired(_))
    })
    .await;
    assert!(began.elapsed() >= SHORT / 2);
    take(&backend, &request("awaited", SHORT)).await;
    busy(&backend, &queued("awaited", LONG)).await;
    let began = Instant::now();
    while began.elapsed() < SHORT * 3 {
        busy(&backend, &request("awaited", SHORT)).await;
        tokio::time::sleep(SHORT / 10).await;
    }
}

async fn a_renewal_after_a_takeover_says_lost() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    let old = take(&one, &request("key", SHORT)).await;
    let next = queued("key", LONG);
    eventually("it is taken over", async || {
        matches!(two.try_lock(&next).await.unwrap(), distlock_core::TryLock::Acquired(_))
    })
    .await;
    assert_eq!(one.renew(&old, SHORT).await.unwrap(), Renewal::Lost(LostReason::Stolen));
    assert_eq!(one.unlock(&old.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
    let release = two.unlock(&next.claim).await.unwrap();
    assert_eq!(release, Release::Released);
}

async fn such_a_lock_outlives_its_lease_s_time() {
    let server = Server::start(&[]).await;
    let client = LockClient::new(std::sync::Arc::new(server.backend().await));
    let guard = client.lock_with("key", &LockOptions::default().ttl(SHORT * 2)).await.unwrap();
    let mut raw = server.raw().await;
    let token = guard.token();
    // Three times what the server gave its lease.
    let view = guard.view();
    tokio::select! {
        reason = view.lost() => panic!("lost: {reason}"),
        () = tokio::time::sleep(Duration::from_secs(6)) => {}
    }
    assert_eq!(records(&mut raw, "key").await.len(), 1);
    assert_eq!(guard.token(), token);
    guard.unlock().await.unwrap();
    eventually("no lease is left", async || raw.leases().await.unwrap().leases().is_empty()).await;
}

async fn a_waiter_with_a_long_ttl_waits_for_a_short_one_too() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    take(&one, &request("key", SHORT)).await;
    let waiter = queued("key", LONG);
    let seen = busy(&two, &waiter).await;
    assert!(seen.free_in.is_some_and(|left| left <= SHORT), "{seen:?}");
    eventually("it gets it", async || {
        matches!(two.try_lock(&waiter).await.unwrap(), distlock_core::TryLock::Acquired(_))
    })
    .await;
}

async fn who_counts_writes_hears_of_them_also_if_it_listened_for_deletions_before() {
    let server = Server::start(&[]).await;
    let (holder, waiter) = (server.backend().await, server.backend().await);
    let other = request("other", LONG);
    take(&holder, &other).await;
    let next = queued("other", LONG);
    let seen = busy(&waiter, &next).await;
    let (woken, released) =
        tokio::join!(waiter.watch_release(&next.claim, &seen), holder.unlock(&other.claim));
    woken.unwrap();
    assert_eq!(released.unwrap(), Release::Released);

    let lease = take(&holder, &request("key", SHORT)).await;
    let next = queued("key", LONG);
    let seen = busy(&waiter, &next).await;
    let write = async || assert!(matches!(holder.renew(&lease, SHORT).await, Ok(Renewal::Renewed { .. })));
    write().await;
    let hearing = eventually("a write is heard of before it is seen", async || {
        // Who first sees it now counts from now.
        let is_heard = busy(&waiter, &next).await.free_in.is_some_and(|left| left < SHORT);
        write().await;
        is_heard
    });
    tokio::select! {
        biased;
        woken = waiter.watch_release(&next.claim, &seen) => panic!("nothing was deleted, and yet {woken:?}"),
        () = hearing => {}
    }
}
