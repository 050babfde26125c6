//! What the backend's `unlock` and `hand_over` must and must not do.

use distlock_core::{Effect, ErrorKind, LostReason, Release, Renewal, TryLock};

use super::*;
use crate::stepwise::polled_at_most;

cases! { "unlock":
    it_frees_the_lock_at_once,
    twice_is_told_from_once,
    what_was_never_held_is_not_held,
    it_leaves_other_owners_alone,
    b048_an_expired_and_a_stolen_lock_get_different_answers,
    a_late_release_leaves_the_successor_alone,
    it_takes_the_claim_out_of_the_queue,
    it_may_come_before_the_attempt_it_withdraws,
    from_another_connection_it_works_too,
    b023_a_dropped_release_can_be_repeated,
    a_wrong_key_releases_nothing,
    handing_over_gives_the_next_a_higher_token,
    handing_over_ends_the_old_hold,
    handing_over_what_is_lost_gives_nothing,
    handing_over_to_a_queued_waiter_works,
    handing_over_is_for_one_key,
}

async fn it_frees_the_lock_at_once(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let request = ctx.request("key");
    take(&*one, &request).await;
    refused(&*two, &ctx.request("key")).await;
    assert_eq!(one.unlock(&request.claim).await.unwrap(), Release::Released);
    take(&*two, &ctx.request("key")).await;
}

async fn twice_is_told_from_once(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    take(&*backend, &request).await;
    assert_eq!(backend.unlock(&request.claim).await.unwrap(), Release::Released);
    for _ in 0..2 {
        let again = backend.unlock(&request.claim).await.unwrap();
        assert_eq!(again, Release::NotHeld(LostReason::Expired), "nobody holds it any more");
    }
}

async fn what_was_never_held_is_not_held(ctx: &Context) {
    let backend = ctx.backend().await;
    let release = backend.unlock(&ctx.claim("key")).await.unwrap();
    assert_eq!(release, Release::NotHeld(LostReason::Expired));
    take(&*backend, &ctx.request("key")).await;
}

async fn it_leaves_other_owners_alone(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    let lease = take(&*backend, &holder).await;
    let release = backend.unlock(&ctx.claim("key")).await.unwrap();
    assert_eq!(release, Release::NotHeld(LostReason::Stolen), "another owner holds it");
    refused(&*backend, &ctx.request("key")).await;
    assert_eq!(take(&*backend, &holder).await.token, lease.token);
    assert!(matches!(backend.renew(&lease, lease.ttl).await.unwrap(), Renewal::Renewed { .. }));
}

async fn b048_an_expired_and_a_stolen_lock_get_different_answers(ctx: &Context) {
    let backend = ctx.backend().await;
    let expired = take(&*backend, &ctx.brief_request("expired")).await;
    let stolen = take(&*backend, &ctx.brief_request("stolen")).await;
    take_within(&*backend, &ctx.request("stolen"), stolen.ttl + ctx.lateness()).await;
    tokio::time::sleep(ctx.lateness()).await;
    assert_eq!(backend.unlock(&expired.claim).await.unwrap(), Release::NotHeld(LostReason::Expired));
    assert_eq!(backend.unlock(&stolen.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
    refused(&*backend, &ctx.request("stolen")).await;
}

async fn a_late_release_leaves_the_successor_alone(ctx: &Context) {
    let backend = ctx.backend().await;
    let old = take(&*backend, &ctx.brief_request("key")).await;
    let request = ctx.request("key");
    let new = take_within(&*backend, &request, old.ttl + ctx.lateness()).await;
    for _ in 0..3 {
        assert_eq!(backend.unlock(&old.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
        if let Some(admin) = backend.admin() {
            admin.inspect(&request.claim.key).await.unwrap();
        }
    }
    assert_eq!(take(&*backend, &request).await.token, new.token, "the successor still holds the lock");
}

async fn it_takes_the_claim_out_of_the_queue(ctx: &Context) {
    let backend = ctx.backend().await;
    let (holder, first, second) =
        (ctx.request("key"), ctx.request("key").queue(true), ctx.request("key").queue(true));
    take(&*backend, &holder).await;
    refused(&*backend, &first).await;
    refused(&*backend, &second).await;
    let release = backend.unlock(&first.claim).await.unwrap();
    assert_eq!(release, Release::NotHeld(LostReason::Stolen), "a waiter does not hold the lock");
    backend.unlock(&holder.claim).await.unwrap();
    take(&*backend, &second).await;
}

async fn it_may_come_before_the_attempt_it_withdraws(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    assert!(matches!(backend.unlock(&request.claim).await.unwrap(), Release::NotHeld(_)));
    // The attempt lands late. Whatever it gave, the second sweep clears it.
    let _ = backend.try_lock(&request).await.unwrap();
    backend.unlock(&request.claim).await.unwrap();
    take(&*backend, &ctx.request("key")).await;
}

async fn from_another_connection_it_works_too(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let request = ctx.request("key");
    take(&*one, &request).await;
    let release = two.unlock(&request.claim).await.unwrap();
    if ctx.info().supports.adopt {
        assert_eq!(release, Release::Released, "leases can be carried elsewhere");
        take(&*one, &ctx.request("key")).await;
    }
}

async fn b023_a_dropped_release_can_be_repeated(ctx: &Context) {
    let backend = ctx.backend().await;
    for polls in 0..30 {
        let request = ctx.request("key");
        take(&*backend, &request).await;
        let done = polled_at_most(polls, backend.unlock(&request.claim)).await;
        backend.unlock(&request.claim).await.unwrap();
        if done.is_some() {
            break;
        }
    }
    // The last dropped one may still land, and must not hurt the next owner.
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(take(&*backend, &request).await.token, lease.token);
}

async fn a_wrong_key_releases_nothing(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    take(&*backend, &request).await;
    let mut elsewhere = request.claim.clone();
    elsewhere.key = ctx.key("other");
    assert!(matches!(backend.unlock(&elsewhere).await.unwrap(), Release::NotHeld(_)));
    refused(&*backend, &ctx.request("key")).await;
}

async fn handing_over_gives_the_next_a_higher_token(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut lease = take(&*backend, &ctx.request("key")).await;
    for _ in 0..5 {
        let next = ctx.request("key").queue(true);
        let TryLock::Acquired(handed) = backend.hand_over(&lease, &next).await.unwrap() else {
            panic!("nobody else wants the lock");
        };
        assert_eq!(handed.claim, next.claim);
        assert!(handed.token > lease.token, "the token went from {} to {}", lease.token, handed.token);
        refused(&*backend, &ctx.request("key")).await;
        assert_eq!(take(&*backend, &next).await.token, handed.token, "a repeat gives the same grant");
        lease = handed;
    }
}

async fn handing_over_ends_the_old_hold(ctx: &Context) {
    let backend = ctx.backend().await;
    let old = take(&*backend, &ctx.request("key")).await;
    let next = ctx.request("key");
    let TryLock::Acquired(new) = backend.hand_over(&old, &next).await.unwrap() else {
        panic!("nobody else wants the lock");
    };
    assert_eq!(backend.renew(&old, old.ttl).await.unwrap(), Renewal::Lost(LostReason::Stolen));
    assert_eq!(backend.unlock(&old.claim).await.unwrap(), Release::NotHeld(LostReason::Stolen));
    assert_eq!(take(&*backend, &next).await.token, new.token);
}

async fn handing_over_what_is_lost_gives_nothing(ctx: &Context) {
    let backend = ctx.backend().await;
    let old = take(&*backend, &ctx.brief_request("key")).await;
    let rival = ctx.request("key");
    let held = take_within(&*backend, &rival, old.ttl + ctx.lateness()).await;
    let next = ctx.request("key");
    match backend.hand_over(&old, &next).await.unwrap() {
        TryLock::Busy(_) => {}
        TryLock::Acquired(_) => panic!("a lock that another owner holds was handed over"),
    }
    assert_eq!(take(&*backend, &rival).await.token, held.token);
    backend.unlock(&next.claim).await.unwrap();
}

async fn handing_over_to_a_queued_waiter_works(ctx: &Context) {
    let backend = ctx.backend().await;
    let old = take(&*backend, &ctx.request("key")).await;
    let waiter = ctx.request("key").queue(true);
    refused(&*backend, &waiter).await;
    // A waiter that already stands in the queue may be the one that takes over.
    let outcome = backend.hand_over(&old, &waiter).await.unwrap();
    assert!(matches!(outcome, TryLock::Acquired(_)), "the only waiter takes over");
    backend.unlock(&waiter.claim).await.unwrap();
    take(&*backend, &ctx.request("key")).await;
}

async fn handing_over_is_for_one_key(ctx: &Context) {
    let backend = ctx.backend().await;
    let old = take(&*backend, &ctx.request("key")).await;
    let error = backend.hand_over(&old, &ctx.request("other")).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::InvalidOptions, Effect::None), "{error}");
    assert!(
        matches!(backend.renew(&old, old.ttl).await.unwrap(), Renewal::Renewed { .. }),
        "it is as it was"
    );
    take(&*backend, &ctx.request("other")).await;
}
