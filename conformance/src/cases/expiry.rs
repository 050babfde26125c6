//! A lease ends by itself: not early, and not much late.

use distlock_core::{LostReason, Release, Renewal, TryLock};

use super::*;

cases! { "expiry":
    an_unrenewed_lease_ends,
    it_never_ends_early,
    it_never_ends_early_after_a_renewal,
    it_never_ends_early_after_a_repeat,
    the_shortest_ttl_ends_too,
    the_stated_ttl_is_the_rounded_one,
    validity_never_exceeds_the_ttl,
    validity_counts_from_the_send @alone [SlowAnswers],
    an_expired_holder_is_not_shown [Admin],
    an_expired_claim_may_come_back_as_a_new_grant,
    the_time_left_falls [Admin],
    an_expired_holder_does_not_block_many_waiters,
    a_lease_ended_by_the_store_is_lost @alone [ExpireNow],
}

async fn an_unrenewed_lease_ends(ctx: &Context) {
    let (holder, rival) = (ctx.backend().await, ctx.backend().await);
    let lease = take(&*holder, &ctx.brief_request("key")).await;
    refused(&*rival, &ctx.request("key")).await;
    take_within(&*rival, &ctx.request("key"), lease.ttl + ctx.lateness()).await;
}

async fn it_never_ends_early(ctx: &Context) {
    let (holder, rival) = (ctx.backend().await, ctx.backend().await);
    let sent = ctx.clock().now();
    let lease = take(&*holder, &ctx.brief_request("key")).await;
    assert_not_early(ctx, &*rival, sent, lease.ttl).await;
}

async fn it_never_ends_early_after_a_renewal(ctx: &Context) {
    let (holder, rival) = (ctx.backend().await, ctx.backend().await);
    let lease = take(&*holder, &ctx.brief_request("key")).await;
    tokio::time::sleep(lease.ttl / 3).await;
    let sent = ctx.clock().now();
    match holder.renew(&lease, lease.ttl).await.unwrap() {
        Renewal::Renewed { .. } => assert_not_early(ctx, &*rival, sent, lease.ttl).await,
        Renewal::Lost(_) => assert!(sent > lease.valid_until, "a lease in its validity is renewed"),
    }
}

async fn it_never_ends_early_after_a_repeat(ctx: &Context) {
    let (holder, rival) = (ctx.backend().await, ctx.backend().await);
    let request = ctx.brief_request("key");
    let lease = take(&*holder, &request).await;
    tokio::time::sleep(lease.ttl / 3).await;
    let sent = ctx.clock().now();
    take(&*holder, &request).await;
    assert_not_early(ctx, &*rival, sent, lease.ttl).await;
}

async fn the_shortest_ttl_ends_too(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut request = ctx.request("key");
    request.ttl = Duration::from_millis(1);
    let TryLock::Acquired(lease) = backend.try_lock(&request).await.unwrap() else {
        panic!("the lock is free");
    };
    assert!(lease.ttl >= ctx.info().guarantees.ttl_min, "the floor is {:?}", ctx.info().guarantees.ttl_min);
    take_within(&*backend, &ctx.request("key"), lease.ttl + ctx.lateness()).await;
}

async fn the_stated_ttl_is_the_rounded_one(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut cut = Duration::ZERO;
    for (n, wish) in [1_u64, 7, 99, 100, 101, 999, 1001, 2500, 30_000, 86_400_001].into_iter().enumerate() {
        let mut request = ctx.request(format!("key {n}"));
        request.ttl = Duration::from_millis(wish);
        let lease = take(&*backend, &request).await;
        let wanted = ctx.info().guarantees.effective_ttl(request.ttl).unwrap();
        if ctx.may_cut_ttls() && lease.ttl < wanted {
            // No later than stated does it end, and a longer wish is not cut to less than a shorter one.
            assert!(
                lease.ttl >= cut,
                "a ttl of {:?} became {:?}, one before {cut:?}",
                request.ttl,
                lease.ttl
            );
            cut = lease.ttl;
            continue;
        }
        assert!(lease.ttl >= request.ttl, "a ttl of {:?} became {:?}: rounded down", request.ttl, lease.ttl);
        assert_eq!(lease.ttl, wanted, "the grant states the ttl that the guarantees announce");
    }
}

async fn validity_never_exceeds_the_ttl(ctx: &Context) {
    let backend = ctx.backend().await;
    for n in 0..20 {
        let request = ctx.request(format!("key {n}"));
        let lease = take(&*backend, &request).await;
        let after = ctx.clock().now();
        let most = after.plus(lease.ttl - request.margin.of(lease.ttl));
        assert!(lease.valid_until <= most, "valid for longer than the ttl less the margin");
        let renewal = backend.renew(&lease, lease.ttl).await.unwrap();
        let after = ctx.clock().now();
        let Renewal::Renewed { valid_until } = renewal else { panic!("a held lock is renewed") };
        let most = after.plus(lease.ttl - request.margin.of(lease.ttl));
        assert!(valid_until <= most, "renewed for longer than the ttl less the margin");
        assert!(valid_until > after, "a renewed lease is valid");
    }
}

async fn validity_counts_from_the_send(ctx: &Context) {
    let backend = ctx.exposed().await;
    let by = Duration::from_millis(200);
    ctx.faults().slow_answers(by).await;
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    // The store acted at least `by` before the answer was here, and the request left before that.
    let latest_send = ctx.clock().now().minus(by);
    let most = latest_send.plus(lease.ttl - request.margin.of(lease.ttl));
    let renewal = backend.renew(&lease, lease.ttl).await.unwrap();
    let latest_renewal = ctx.clock().now().minus(by);
    ctx.faults().heal().await;
    assert!(lease.valid_until <= most, "the grant's validity counts from the answer, not from the send");
    let Renewal::Renewed { valid_until } = renewal else { panic!("a held lock is renewed") };
    let most = latest_renewal.plus(lease.ttl - request.margin.of(lease.ttl));
    assert!(valid_until <= most, "the renewal's validity counts from the answer, not from the send");
}

async fn an_expired_holder_is_not_shown(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.brief_request("key")).await;
    until("the expired holder to vanish", lease.ttl + ctx.lateness(), || async {
        let record = backend.admin().unwrap().inspect(&ctx.key("key")).await.unwrap();
        record.is_none_or(|record| record.holders.is_empty()).then_some(())
    })
    .await;
    let listed = backend.admin().unwrap().list(ctx.prefix().as_bytes(), None, 10).await.unwrap();
    assert!(listed.iter().all(|record| record.holders.is_empty()), "listing shows an expired holder");
}

async fn an_expired_claim_may_come_back_as_a_new_grant(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.brief_request("key");
    let lease = take(&*backend, &request).await;
    tokio::time::sleep(lease.ttl + ctx.lateness()).await;
    let again = take(&*backend, &request).await;
    assert!(again.token >= lease.token, "tokens never fall");
    let now = ctx.clock().now();
    assert!(again.valid_until > now, "a fresh grant is valid");
    refused(&*backend, &ctx.request("key")).await;
}

async fn the_time_left_falls(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.request("key")).await;
    let mut last = lease.ttl + ctx.info().guarantees.ttl_grain;
    for _ in 0..5 {
        let record = backend.admin().unwrap().inspect(&ctx.key("key")).await.unwrap().unwrap();
        if let Some(left) = record.holders[0].expires_in {
            assert!(left <= last, "the time left rose from {last:?} to {left:?} without a renewal");
            last = left;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn an_expired_holder_does_not_block_many_waiters(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.brief_request("key")).await;
    let limit = lease.ttl + ctx.lateness() + Duration::from_secs(10);
    let waiters = (0..6).map(|_| {
        let (backend, request) = (Arc::clone(&backend), ctx.request("key"));
        tokio::spawn(async move {
            take_within(&*backend, &request, limit).await;
            assert_eq!(backend.unlock(&request.claim).await.unwrap(), Release::Released);
        })
    });
    for waiter in join_all(waiters).await {
        waiter.unwrap();
    }
}

async fn a_lease_ended_by_the_store_is_lost(ctx: &Context) {
    // The store breaks its word here, so overlapping holds are expected.
    ctx.without_check("H1");
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    ctx.faults().expire_now(&request.claim.key).await;
    let renewal = backend.renew(&lease, lease.ttl).await.unwrap();
    assert!(matches!(renewal, Renewal::Lost(LostReason::Expired | LostReason::SessionClosed)), "{renewal:?}");
    let next = take(&*backend, &ctx.request("key")).await;
    assert!(next.token > lease.token);
    let renewal = backend.renew(&lease, lease.ttl).await.unwrap();
    assert_eq!(renewal, Renewal::Lost(LostReason::Stolen));
}
