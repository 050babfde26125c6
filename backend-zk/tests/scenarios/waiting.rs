//! Waits that must not be forgotten.

use std::time::Duration;

use distlock_conformance::Way;
use distlock_core::{LockBackend, LockClient, LockOptions, Queueing, TryLock, WaitPolicy};
use distlock_testbed::rounds;
use futures_util::future::join_all;

use crate::support::{backend, behind_proxy, client, connect, folder, refused, request, shared, take, tests};

tests! {
    b056_a_release_between_check_and_wait_is_not_missed,
    b068_waits_dropped_when_they_are_served_break_nothing,
    b133_a_late_release_frees_no_later_grant,
    dead_waiters_in_a_row_are_passed_before_their_session_ends,
}

const LONG: Duration = Duration::from_secs(5);

async fn b056_a_release_between_check_and_wait_is_not_missed() {
    let folder = folder();
    let (one, two) = (backend(&folder).await, backend(&folder).await);
    for round in 0..u64::try_from(rounds(200).min(10_000)).unwrap() {
        let (held, waiter) = (request("k", LONG), request("k", LONG).queue(true));
        take(&*one, &held).await;
        let busy = match two.try_lock(&waiter).await.unwrap() {
            TryLock::Busy(busy) => busy,
            TryLock::Acquired(lease) => panic!("it is held, yet there is {lease:?}"),
        };
        // At some moment of the wait's beginning.
        let release = async {
            tokio::time::sleep(Duration::from_micros(round * 25 % 3000)).await;
            one.unlock(&held.claim).await.unwrap();
        };
        let wait = tokio::time::timeout(Duration::from_secs(10), two.watch_release(&waiter.claim, &busy));
        let (woken, ()) = tokio::join!(wait, release);
        woken.expect("the waiter is woken").unwrap();
        take(&*two, &waiter).await;
        two.unlock(&waiter.claim).await.unwrap();
    }
}

async fn b068_waits_dropped_when_they_are_served_break_nothing() {
    let folder = folder();
    let (one, two) = (client(&folder).await, LockClient::new(backend(&folder).await));
    let kept = two.lock("kept").await.unwrap();
    let strict = LockOptions::default().queue(Queueing::Strict).wait(WaitPolicy::UpTo(LONG));
    for round in 0..20_u64 {
        let held = one.lock("k").await.unwrap();
        let waits = (0..20_u64).map(|n| {
            let (two, options) = (two.clone(), strict.clone());
            async move {
                let patience = Duration::from_micros(20_000 + (round * 20 + n) * 100);
                let _ = tokio::time::timeout(patience, two.lock_with("k", &options)).await;
            }
        });
        let release = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            held.unlock().await.unwrap();
        };
        tokio::join!(join_all(waits), release);
    }
    let guard = one.lock_with("k", &strict).await.expect("nobody is left in front");
    guard.unlock().await.unwrap();
    assert!(kept.is_valid(), "the session of the dropped waits goes on");
    kept.renew().await.unwrap();
    let other = backend(&folder).await;
    refused(&*other, &request("kept", LONG)).await;
}

async fn b133_a_late_release_frees_no_later_grant() {
    let folder = folder();
    let (proxy, url) = behind_proxy(shared(), &folder, "session_timeout=20s");
    let client = LockClient::new(connect(&url).await);
    let other = backend(&folder).await;
    proxy.delay(Way::ToServer, Duration::from_millis(1), Duration::from_millis(4));
    let mut last = None;
    for _ in 0..rounds(300).min(10_000) {
        // The drop's release is on its way while the next grant is asked for.
        let guard = client.lock("k").await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
    }
    let guard = client.lock("k").await.unwrap();
    for _ in 0..20 {
        refused(&*other, &request("k", LONG)).await;
        assert!(guard.is_valid());
    }
    guard.renew().await.expect("no earlier release has freed it");
}

/// A holder and two waiters whose programs are cut off, in sessions that live for long.
async fn dead_waiters_in_a_row_are_passed_before_their_session_ends() {
    const TTL: Duration = Duration::from_secs(2);
    let folder = folder();
    let (proxy, url) = behind_proxy(shared(), &folder, "session_timeout=60s");
    let dead = connect(&url).await;
    let held = request("k", TTL);
    let lease = take(&*dead, &held).await;
    for _ in 0..2 {
        refused(&*dead, &request("k", TTL).queue(true)).await;
    }
    for way in [Way::ToServer, Way::ToClient] {
        proxy.silence(way);
    }
    let began = std::time::Instant::now();
    let options = LockOptions::default().ttl(TTL).wait(WaitPolicy::UpTo(Duration::from_secs(120)));
    let guard = client(&folder).await.lock_with("k", &options).await.expect("the dead are passed");
    let took = began.elapsed();
    eprintln!("a dead holder and two dead waiters were passed in {took:?}");
    assert!(lease.valid_until <= dead.clock().now(), "passed before its time");
    // Their session would have ended after that.
    assert!(took < Duration::from_secs(55), "{took:?}");
    guard.unlock().await.unwrap();
}
