//! Leases that one lock after the other hangs on, and locks passed on to the next.

use std::time::Duration;

use distlock_core::{LockAdmin, LockBackend, LockRequest, LostReason, Release, Renewal, TryLock};
use distlock_etcd::EtcdBackend;

use crate::support::{Server, busy, queued, records, request, take, tests};

tests! {
    the_next_lock_takes_the_lease_of_the_last_one,
    a_kept_lease_that_is_gone_costs_no_lock,
    taking_one_lock_away_leaves_the_next_one_on_its_lease,
    a_refused_try_leaves_its_lease_for_the_next,
    an_attempt_that_was_dropped_midway_leaves_no_record,
    a_lock_is_passed_on_with_its_lease,
    nobody_is_passed_in_the_queue,
    what_is_lost_is_not_passed_on,
}

const TTL: Duration = Duration::from_secs(60);

async fn lease_count(server: &Server) -> usize {
    server.raw().await.leases().await.unwrap().leases().len()
}

async fn pass(backend: &EtcdBackend, from: &LockRequest, to: &LockRequest) -> TryLock {
    let held = take(backend, from).await;
    backend.hand_over(&held, to).await.unwrap()
}

async fn the_next_lock_takes_the_lease_of_the_last_one() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    let mut seen = Vec::new();
    for name in ["one", "two"] {
        let request = request(name, TTL);
        let held = take(&backend, &request).await;
        assert!(held.valid_until > backend.clock().now().plus(TTL * 9 / 10), "its whole time is left");
        seen.push(records(&mut raw, name).await[0].2);
        assert_eq!(backend.unlock(&request.claim).await.unwrap(), Release::Released);
    }
    assert_eq!(seen[0], seen[1]);
    take(&backend, &request("three", TTL * 2)).await;
    assert_ne!(records(&mut raw, "three").await[0].2, seen[0], "a lease is for one ttl");
}

async fn a_kept_lease_that_is_gone_costs_no_lock() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let first = request("key", TTL);
    let token = take(&backend, &first).await.token;
    backend.unlock(&first.claim).await.unwrap();
    let mut raw = server.raw().await;
    for lease in raw.leases().await.unwrap().leases() {
        raw.lease_revoke(lease.id()).await.unwrap();
    }
    let second = request("key", TTL);
    let held = take(&backend, &second).await;
    assert!(held.token > token);
    assert!(matches!(backend.renew(&held, TTL).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(backend.unlock(&second.claim).await.unwrap(), Release::Released);
}

async fn taking_one_lock_away_leaves_the_next_one_on_its_lease() {
    let server = Server::start(&[]).await;
    let (backend, operator) = (server.backend().await, server.backend().await);
    let first = request("one", TTL);
    take(&backend, &first).await;
    backend.unlock(&first.claim).await.unwrap();
    let next = take(&backend, &request("two", TTL)).await;
    assert!(operator.force_unlock(&first.claim.key).await.unwrap().is_none(), "it was given back");
    assert!(matches!(backend.renew(&next, TTL).await.unwrap(), Renewal::Renewed { .. }));
    assert!(operator.force_unlock(&next.claim.key).await.unwrap().is_some());
    assert_eq!(backend.renew(&next, TTL).await.unwrap(), Renewal::Lost(LostReason::Expired));
}

async fn a_refused_try_leaves_its_lease_for_the_next() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    take(&one, &request("key", TTL)).await;
    for _ in 0..5 {
        busy(&two, &request("key", TTL)).await;
    }
    assert_eq!(lease_count(&server).await, 2, "the holder's, and one for all tries");
}

async fn an_attempt_that_was_dropped_midway_leaves_no_record() {
    const STEP: Duration = Duration::from_micros(100);
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    for step in 0..40 {
        let request = request("key", TTL);
        drop(tokio::time::timeout(STEP * step, backend.try_lock(&request)).await);
        backend.unlock(&request.claim).await.unwrap();
    }
    backend.close().await.unwrap();
    // A grant that nobody heard of is all that may be left, and nothing hangs on it.
    let mut raw = server.raw().await;
    assert!(records(&mut raw, "key").await.is_empty());
}

async fn a_lock_is_passed_on_with_its_lease() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let (first, second) = (request("key", TTL), request("key", TTL));
    let held = take(&backend, &first).await;
    let before = backend.commands_sent().unwrap();
    let TryLock::Acquired(passed) = backend.hand_over(&held, &second).await.unwrap() else {
        panic!("nobody else wants it");
    };
    assert_eq!(backend.commands_sent().unwrap() - before, 1);
    assert!(passed.token > held.token);
    assert_eq!(lease_count(&server).await, 1);
    assert_eq!(backend.unlock(&first.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
    assert!(matches!(backend.renew(&passed, TTL).await.unwrap(), Renewal::Renewed { .. }));
    // A repeat, as after an answer that was lost.
    let TryLock::Acquired(again) = backend.hand_over(&held, &second).await.unwrap() else {
        panic!("it has it already");
    };
    assert_eq!(again.token, passed.token);
    assert_eq!(backend.unlock(&second.claim).await.unwrap(), Release::Released);
}

async fn nobody_is_passed_in_the_queue() {
    let server = Server::start(&[]).await;
    let (one, two) = (server.backend().await, server.backend().await);
    let (first, waiter, next) = (request("key", TTL), queued("key", TTL), request("key", TTL));
    take(&one, &first).await;
    busy(&two, &waiter).await;
    assert!(matches!(pass(&one, &first, &next).await, TryLock::Busy(_)), "somebody waits");
    let held = take(&one, &first).await;
    assert!(matches!(one.renew(&held, TTL).await.unwrap(), Renewal::Renewed { .. }), "it is as it was");
    // By now it is known that others wait, and asking costs nothing.
    let before = one.commands_sent();
    assert!(matches!(one.hand_over(&held, &next).await.unwrap(), TryLock::Busy(_)));
    assert_eq!(one.commands_sent(), before);
    assert_eq!(one.unlock(&first.claim).await.unwrap(), Release::Released);
    take(&two, &waiter).await;
}

async fn what_is_lost_is_not_passed_on() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let (first, next) = (request("key", TTL), request("key", TTL));
    let held = take(&backend, &first).await;
    backend.force_unlock(&first.claim.key).await.unwrap();
    assert!(matches!(backend.hand_over(&held, &next).await.unwrap(), TryLock::Busy(_)));
    let mut raw = server.raw().await;
    assert!(records(&mut raw, "key").await.is_empty());
}
