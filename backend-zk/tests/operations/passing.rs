//! Locks that are passed on to the next contender.

use std::time::Duration;

use distlock_conformance::Way;
use distlock_core::{FencingToken, LockBackend, LockKey, LockRequest, LostReason, Release, Renewal, TryLock};
use distlock_zk::ZkBackend;

use crate::support::{
    backend, behind_proxy, connect, eventually, folder, raw, refused, request, shared, take, tests,
};

tests! {
    a_lock_is_passed_on_in_one_request,
    nobody_is_passed_in_the_queue,
    a_try_that_came_and_went_costs_three_requests,
    what_is_lost_is_not_passed_on,
    a_raised_floor_counts_for_what_is_passed_on,
    a_claim_elsewhere_in_the_queue_keeps_its_place,
    dropped_midway_it_leaves_no_node,
    cut_off_midway_it_leaves_one_holder,
    a_session_that_ends_midway_takes_both_along,
}

const LONG: Duration = Duration::from_secs(5);

async fn names(folder: &str) -> Vec<String> {
    raw().await.list_children(&format!("{folder}/k")).await.unwrap_or_default()
}

async fn passed(backend: &ZkBackend, from: &distlock_core::Lease, to: &LockRequest) -> distlock_core::Lease {
    match backend.hand_over(from, to).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("nobody else wants it, yet it is {busy:?}"),
    }
}

async fn kept(backend: &ZkBackend, from: &distlock_core::Lease, to: &LockRequest) {
    let outcome = backend.hand_over(from, to).await.unwrap();
    assert!(matches!(outcome, TryLock::Busy(_)), "it is not to be passed on, yet there is {outcome:?}");
}

async fn a_lock_is_passed_on_in_one_request() {
    let folder = folder();
    let backend = backend(&folder).await;
    let first = request("k", LONG);
    let held = take(&*backend, &first).await;
    let (before, next) = (backend.commands_sent().unwrap(), request("k", LONG));
    let lease = passed(&backend, &held, &next).await;
    assert_eq!(backend.commands_sent().unwrap() - before, 1);
    assert!(lease.token > held.token);
    assert!(lease.valid_until > backend.clock().now().plus(LONG / 2), "its time begins anew");
    assert_eq!(names(&folder).await.len(), 1);
    let shown = backend.admin().unwrap().inspect(&first.claim.key).await.unwrap().unwrap();
    assert_eq!((shown.holders[0].owner, shown.holders[0].token), (next.claim.owner, lease.token));
    assert_eq!(backend.renew(&held, LONG).await.unwrap(), Renewal::Lost(LostReason::Stolen));
    assert_eq!(backend.unlock(&first.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
    // A repeat, as after an answer that was lost.
    assert_eq!(passed(&backend, &held, &next).await.token, lease.token);
    assert!(matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Renewed { .. }));
    // Renewed or not, it goes on.
    let last = request("k", LONG);
    assert!(passed(&backend, &lease, &last).await.token > lease.token);
    assert_eq!(backend.unlock(&last.claim).await.unwrap(), Release::Released);
    assert_eq!(names(&folder).await, [""; 0]);
}

async fn nobody_is_passed_in_the_queue() {
    let folder = folder();
    let (one, two) = (backend(&folder).await, backend(&folder).await);
    let (first, waiter) = (request("k", LONG), request("k", LONG).queue(true));
    let held = take(&*one, &first).await;
    refused(&*two, &waiter).await;
    kept(&one, &held, &request("k", LONG)).await;
    assert_eq!(names(&folder).await.len(), 2, "it is as it was");
    assert!(matches!(one.renew(&held, LONG).await.unwrap(), Renewal::Renewed { .. }));
    // By now it is known that others wait, and asking costs nothing.
    let before = one.commands_sent();
    kept(&one, &held, &request("k", LONG)).await;
    assert_eq!(one.commands_sent(), before);
    assert_eq!(one.unlock(&first.claim).await.unwrap(), Release::Released);
    take(&*two, &waiter).await;
    // Whoever holds it hands it on to its own again, once the others have gone.
    two.unlock(&waiter.claim).await.unwrap();
    let held = take(&*one, &request("k", LONG)).await;
    passed(&one, &held, &request("k", LONG)).await;
}

async fn a_try_that_came_and_went_costs_three_requests() {
    let folder = folder();
    let (one, two) = (backend(&folder).await, backend(&folder).await);
    let held = take(&*one, &request("k", LONG)).await;
    refused(&*two, &request("k", LONG)).await;
    let before = one.commands_sent().unwrap();
    let held = passed(&one, &held, &request("k", LONG)).await;
    assert_eq!(one.commands_sent().unwrap() - before, 4);
    passed(&one, &held, &request("k", LONG)).await;
    assert_eq!(one.commands_sent().unwrap() - before, 5);
}

async fn what_is_lost_is_not_passed_on() {
    let folder = folder();
    let backend = backend(&folder).await;
    let first = request("k", LONG);
    let held = take(&*backend, &first).await;
    backend.admin().unwrap().force_unlock(&first.claim.key).await.unwrap();
    kept(&backend, &held, &request("k", LONG)).await;
    assert_eq!(names(&folder).await, [""; 0]);
    let rival = request("k", LONG);
    take(&*backend, &rival).await;
    kept(&backend, &held, &request("k", LONG)).await;
    assert_eq!(names(&folder).await.len(), 1);
    let other_key = request("other", LONG);
    let held = take(&*backend, &rival).await;
    assert!(backend.hand_over(&held, &other_key).await.is_err());
    assert_eq!(backend.unlock(&rival.claim).await.unwrap(), Release::Released);
}

async fn a_raised_floor_counts_for_what_is_passed_on() {
    let folder = folder();
    let (one, two) = (backend(&folder).await, backend(&folder).await);
    let mut held = take(&*one, &request("k", LONG)).await;
    for _ in 0..3 {
        let floor = FencingToken::new(held.token.get() + (1 << 40)).unwrap();
        two.admin().unwrap().raise_token_floor(floor).await.unwrap();
        held = passed(&one, &held, &request("k", LONG)).await;
        assert!(held.token > floor, "{} is not above {floor}", held.token);
        let before = one.commands_sent().unwrap();
        held = passed(&one, &held, &request("k", LONG)).await;
        assert_eq!(one.commands_sent().unwrap() - before, 1);
    }
    let key = LockKey::new("k").unwrap();
    let shown = one.admin().unwrap().inspect(&key).await.unwrap().unwrap();
    assert_eq!(shown.holders[0].token, held.token);
}

async fn a_claim_elsewhere_in_the_queue_keeps_its_place() {
    let folder = folder();
    let (one, two) = (backend(&folder).await, backend(&folder).await);
    let queued = || request("k", LONG).queue(true);
    let (first, second, third) = (request("k", LONG), queued(), queued());
    let held = take(&*one, &first).await;
    refused(&*two, &second).await;
    refused(&*one, &third).await;
    kept(&one, &held, &third).await;
    assert_eq!(names(&folder).await.len(), 3);
    two.unlock(&second.claim).await.unwrap();
    // Now it stands directly behind.
    assert!(passed(&one, &held, &third).await.token > held.token);
    assert_eq!(names(&folder).await.len(), 1);
}

async fn dropped_midway_it_leaves_no_node() {
    const STEP: Duration = Duration::from_micros(100);
    let folder = folder();
    let backend = backend(&folder).await;
    for step in 0..40 {
        let (first, next) = (request("k", LONG), request("k", LONG));
        let held = take(&*backend, &first).await;
        drop(tokio::time::timeout(STEP * step, backend.hand_over(&held, &next)).await);
        // As the client does.
        if backend.unlock(&next.claim).await.unwrap() != Release::Released {
            assert_eq!(backend.unlock(&first.claim).await.unwrap(), Release::Released);
        }
        assert_eq!(names(&folder).await, [""; 0]);
    }
}

async fn cut_off_midway_it_leaves_one_holder() {
    let folder = folder();
    let (proxy, url) = behind_proxy(shared(), &folder, "session_timeout=10s");
    let (other, passing) = (backend(&folder).await, connect(&url).await);
    for round in 0..30_u64 {
        let (first, next) = (request("k", LONG), request("k", LONG));
        let mut held = None;
        eventually("it is taken", async || {
            held = passing.try_lock(&first).await.ok();
            held.is_some()
        })
        .await;
        let Some(TryLock::Acquired(held)) = held else { panic!("nobody else wants it: {held:?}") };
        // At once, when the request is on its way, or when the answer is.
        let before = proxy.traffic();
        let is_time = || match round % 3 {
            0 => true,
            1 => proxy.traffic().to_server > before.to_server,
            _ => proxy.traffic().to_client > before.to_client,
        };
        let (outcome, ()) = tokio::join!(passing.hand_over(&held, &next), async {
            let deadline = std::time::Instant::now() + LONG;
            while !is_time() && std::time::Instant::now() < deadline {
                tokio::task::yield_now().await;
            }
            proxy.reset().await;
        });
        match outcome {
            Ok(TryLock::Acquired(lease)) => assert!(lease.token > held.token),
            Ok(TryLock::Busy(busy)) => panic!("nobody else wants it, yet it is {busy:?}"),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        // Whoever has it, it is one of both.
        refused(&*other, &request("k", LONG)).await;
        for claim in [&next.claim, &first.claim] {
            eventually("the withdrawal is answered", async || passing.unlock(claim).await.is_ok()).await;
        }
        assert_eq!(names(&folder).await, [""; 0]);
    }
}

async fn a_session_that_ends_midway_takes_both_along() {
    let folder = folder();
    for way in [Way::ToServer, Way::ToClient] {
        let (proxy, url) = behind_proxy(shared(), &folder, "session_timeout=2s");
        let (other, passing) = (backend(&folder).await, connect(&url).await);
        let (first, next, waiter) = (request("k", LONG), request("k", LONG), request("k", LONG).queue(true));
        let held = take(&*passing, &first).await;
        proxy.silence(way);
        let outcome = passing.hand_over(&held, &next).await;
        assert!(outcome.is_err(), "nobody answers, yet there is {outcome:?}");
        refused(&*other, &waiter).await;
        eventually("the servers end the session", async || {
            matches!(other.try_lock(&waiter).await.unwrap(), TryLock::Acquired(_))
        })
        .await;
        proxy.pass();
        for claim in [&next.claim, &first.claim] {
            let mut release = None;
            eventually("the withdrawal is answered", async || {
                release = passing.unlock(claim).await.ok();
                release.is_some()
            })
            .await;
            assert!(matches!(release, Some(Release::NotHeld(_))), "{release:?}");
        }
        assert_eq!(other.unlock(&waiter.claim).await.unwrap(), Release::Released);
        assert_eq!(names(&folder).await, [""; 0]);
    }
}
