//! What the backend's `renew` must and must not do.

use distlock_core::{LostReason, Renewal, TryLock};

use super::*;
use crate::stepwise::polled_at_most;

cases! { "renewal":
    it_prolongs_the_lease,
    it_never_shortens_it,
    it_never_shortens_it_in_the_store [Admin],
    it_never_brings_back_an_expired_lock,
    it_never_brings_back_a_released_lock,
    it_never_creates_a_lock,
    a_stolen_lock_is_told_from_an_expired_one,
    a_late_renewal_leaves_the_successor_alone,
    a_lost_lease_stays_lost,
    many_are_answered_in_order [ManyHeld],
    many_may_be_none,
    one_lost_lease_takes_no_other_with_it,
    a_dropped_renewal_leaves_the_lock_held,
    from_another_connection_it_works_too,
}

async fn it_prolongs_the_lease(ctx: &Context) {
    let (holder, rival) = (ctx.backend().await, ctx.backend().await);
    let mut lease = take(&*holder, &ctx.brief_request("key")).await;
    for _ in 0..6 {
        tokio::time::sleep(lease.ttl / 3).await;
        let before = ctx.clock().now();
        match holder.renew(&lease, lease.ttl).await.unwrap() {
            Renewal::Renewed { valid_until } => {
                assert!(valid_until > before, "a renewed lease is valid");
                lease.valid_until = valid_until;
            }
            Renewal::Lost(reason) => {
                assert!(before > lease.valid_until, "a valid lease is renewed, not lost: {reason}");
                return ctx.note_stall();
            }
        }
    }
    if ctx.clock().now() < lease.valid_until {
        refused(&*rival, &ctx.request("key")).await;
    }
}

async fn it_never_shortens_it(ctx: &Context) {
    let (holder, rival) = (ctx.backend().await, ctx.backend().await);
    let sent = ctx.clock().now();
    let lease = take(&*holder, &ctx.brief_request("key")).await;
    let shorter = ctx.info().guarantees.ttl_min.max(Duration::from_millis(1));
    let renewal = holder.renew(&lease, shorter).await.unwrap();
    assert!(matches!(renewal, Renewal::Renewed { .. }), "a held lock is renewed");
    assert_not_early(ctx, &*rival, sent, lease.ttl).await;
}

async fn it_never_shortens_it_in_the_store(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.request("key")).await;
    let admin = backend.admin().unwrap();
    let left = || async { admin.inspect(&ctx.key("key")).await.unwrap().unwrap().holders[0].expires_in };
    let Some(before) = left().await else { return };
    backend.renew(&lease, ctx.brief()).await.unwrap();
    let after = left().await.expect("who shows the time left goes on showing it");
    // The history's check compares exactly; this one says it plainly.
    assert!(
        after > before / 2,
        "a renewal for {:?} cut the time left from {before:?} to {after:?}",
        ctx.brief()
    );
}

async fn it_never_brings_back_an_expired_lock(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.brief_request("key")).await;
    tokio::time::sleep(lease.ttl + ctx.lateness()).await;
    let renewal = backend.renew(&lease, ctx.long()).await.unwrap();
    assert_eq!(renewal, Renewal::Lost(LostReason::Expired), "an expired lock is not held any more");
    take(&*backend, &ctx.request("key")).await;
}

async fn it_never_brings_back_a_released_lock(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.request("key")).await;
    backend.unlock(&lease.claim).await.unwrap();
    let renewal = backend.renew(&lease, ctx.long()).await.unwrap();
    assert!(matches!(renewal, Renewal::Lost(_)), "a released lock is lost, not {renewal:?}");
    take(&*backend, &ctx.request("key")).await;
}

async fn it_never_creates_a_lock(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut lease = take(&*backend, &ctx.request("another key")).await;
    lease.claim = ctx.claim("key");
    let renewal = backend.renew(&lease, ctx.long()).await.unwrap();
    assert!(matches!(renewal, Renewal::Lost(_)), "what was never held is lost, not {renewal:?}");
    take(&*backend, &ctx.request("key")).await;
}

async fn a_stolen_lock_is_told_from_an_expired_one(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.brief_request("key")).await;
    let rival = ctx.request("key");
    take_within(&*backend, &rival, lease.ttl + ctx.lateness()).await;
    assert_eq!(backend.renew(&lease, lease.ttl).await.unwrap(), Renewal::Lost(LostReason::Stolen));
    backend.unlock(&rival.claim).await.unwrap();
    assert_eq!(backend.renew(&lease, lease.ttl).await.unwrap(), Renewal::Lost(LostReason::Expired));
}

async fn a_late_renewal_leaves_the_successor_alone(ctx: &Context) {
    let backend = ctx.backend().await;
    let old = take(&*backend, &ctx.brief_request("key")).await;
    let request = ctx.request("key");
    let new = take_within(&*backend, &request, old.ttl + ctx.lateness()).await;
    for _ in 0..3 {
        assert!(matches!(backend.renew(&old, ctx.long()).await.unwrap(), Renewal::Lost(_)));
        if let Some(admin) = backend.admin() {
            admin.inspect(&request.claim.key).await.unwrap();
        }
    }
    assert_eq!(take(&*backend, &request).await.token, new.token, "the successor still holds the lock");
}

async fn a_lost_lease_stays_lost(ctx: &Context) {
    let backend = ctx.backend().await;
    let old = take(&*backend, &ctx.brief_request("key")).await;
    let rival = ctx.request("key");
    take_within(&*backend, &rival, old.ttl + ctx.lateness()).await;
    backend.unlock(&rival.claim).await.unwrap();
    for _ in 0..3 {
        assert!(matches!(backend.renew(&old, old.ttl).await.unwrap(), Renewal::Lost(_)), "lost for good");
    }
    let Ok(TryLock::Acquired(_)) = backend.try_lock(&ctx.request("key")).await else {
        panic!("renewing a lost lease took the lock");
    };
}

async fn many_are_answered_in_order(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut leases = Vec::new();
    for n in 0..9 {
        leases.push(take(&*backend, &ctx.request(format!("key {n}"))).await);
    }
    // Lost are the first of each three, so that neither sorting nor reversing leaves their places.
    for lease in leases.iter().step_by(3) {
        backend.unlock(&lease.claim).await.unwrap();
    }
    let results = backend.renew_many(&leases, ctx.long()).await;
    assert_eq!(results.len(), leases.len(), "one answer for each lease");
    for (n, result) in results.into_iter().enumerate() {
        let renewed = matches!(result.unwrap(), Renewal::Renewed { .. });
        assert_eq!(renewed, n % 3 != 0, "answer {n} stands in the place of another lease");
    }
}

async fn many_may_be_none(ctx: &Context) {
    assert!(ctx.backend().await.renew_many(&[], ctx.long()).await.is_empty());
}

async fn one_lost_lease_takes_no_other_with_it(ctx: &Context) {
    let backend = ctx.backend().await;
    let (first, second) = (ctx.request("one"), ctx.request("two"));
    let leases = [take(&*backend, &first).await, take(&*backend, &second).await];
    backend.unlock(&first.claim).await.unwrap();
    take(&*backend, &ctx.request("one")).await;
    let results = backend.renew_many(&leases, ctx.long()).await;
    assert_eq!(*results[0].as_ref().unwrap(), Renewal::Lost(LostReason::Stolen));
    assert!(matches!(results[1], Ok(Renewal::Renewed { .. })), "{:?}", results[1]);
}

async fn a_dropped_renewal_leaves_the_lock_held(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    for polls in 0..30 {
        let done = polled_at_most(polls, backend.renew(&lease, lease.ttl)).await;
        refused(&*backend, &ctx.request("key")).await;
        if done.is_some() {
            break;
        }
    }
    assert_eq!(take(&*backend, &request).await.token, lease.token);
}

async fn from_another_connection_it_works_too(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    if !ctx.info().supports.adopt {
        // Another connection does not know the lease there, and says that it is lost although it is held.
        ctx.without_check("H7");
    }
    let lease = take(&*one, &ctx.request("key")).await;
    match two.renew(&lease, lease.ttl).await.unwrap() {
        Renewal::Renewed { .. } => {}
        Renewal::Lost(reason) => {
            assert!(!ctx.info().supports.adopt, "leases can be carried elsewhere, yet it is lost: {reason}");
        }
    }
}
