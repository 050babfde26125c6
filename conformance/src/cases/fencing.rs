//! Tokens rise with every grant, whatever ended the one before.

use distlock_core::{Claim, FencingToken, Renewal, TryLock};

use super::*;
use crate::register::Register;

cases! { "fencing":
    tokens_rise_with_every_grant,
    tokens_rise_across_connections,
    tokens_rise_after_expiry,
    tokens_rise_after_a_forced_release [Admin],
    tokens_rise_after_a_reconnect,
    tokens_rise_after_idle_keys_are_pruned @alone [Prune],
    tokens_rise_after_a_restart @alone [Restart],
    the_token_stays_under_renewal,
    the_token_stays_under_late_repeats,
    a_withdrawn_attempt_does_not_lower_the_next_token,
    a_raised_floor_is_kept @alone [Admin],
    a_raised_floor_is_kept_by_hand_overs @alone [Admin, HandOver],
    the_last_token_is_shown [Admin],
    tokens_read_back_as_text,
    b135_a_stale_token_is_refused_and_without_a_fence_an_update_is_lost,
}

async fn grant(ctx: &Context, backend: &dyn distlock_core::LockBackend) -> (Claim, FencingToken) {
    let request = ctx.request("key");
    let lease = take(backend, &request).await;
    (request.claim, lease.token)
}

fn assert_rose(before: FencingToken, after: FencingToken) {
    assert!(after > before, "the token went from {before} to {after}");
}

async fn tokens_rise_with_every_grant(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut last = None;
    for _ in 0..30 {
        let (claim, token) = grant(ctx, &*backend).await;
        if let Some(last) = last {
            assert_rose(last, token);
        }
        last = Some(token);
        backend.unlock(&claim).await.unwrap();
    }
}

async fn tokens_rise_across_connections(ctx: &Context) {
    let backends = [ctx.backend().await, ctx.backend().await, ctx.backend().await];
    let mut last = None;
    for n in 0..18 {
        let backend = &backends[n % 3];
        let (claim, token) = grant(ctx, &**backend).await;
        if let Some(last) = last {
            assert_rose(last, token);
        }
        last = Some(token);
        backend.unlock(&claim).await.unwrap();
    }
}

async fn tokens_rise_after_expiry(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.brief_request("key")).await;
    let next = take_within(&*backend, &ctx.request("key"), lease.ttl + ctx.lateness()).await;
    assert_rose(lease.token, next.token);
}

async fn tokens_rise_after_a_forced_release(ctx: &Context) {
    let backend = ctx.backend().await;
    let (_, before) = grant(ctx, &*backend).await;
    backend.admin().unwrap().force_unlock(&ctx.key("key")).await.unwrap();
    let (_, after) = grant(ctx, &*backend).await;
    assert_rose(before, after);
}

async fn tokens_rise_after_a_reconnect(ctx: &Context) {
    let mut last = None;
    for _ in 0..4 {
        let backend = ctx.backend().await;
        let (claim, token) = grant(ctx, &*backend).await;
        if let Some(last) = last {
            assert_rose(last, token);
        }
        last = Some(token);
        backend.unlock(&claim).await.unwrap();
    }
}

async fn tokens_rise_after_idle_keys_are_pruned(ctx: &Context) {
    let backend = ctx.backend().await;
    for _ in 0..5 {
        let (claim, before) = grant(ctx, &*backend).await;
        backend.unlock(&claim).await.unwrap();
        ctx.faults().prune().await;
        let (claim, after) = grant(ctx, &*backend).await;
        assert_rose(before, after);
        backend.unlock(&claim).await.unwrap();
    }
}

async fn tokens_rise_after_a_restart(ctx: &Context) {
    let (claim, before) = grant(ctx, &*ctx.backend().await).await;
    ctx.backend().await.unlock(&claim).await.unwrap();
    ctx.faults().restart().await;
    let (_, after) = grant(ctx, &*ctx.backend().await).await;
    assert_rose(before, after);
}

async fn the_token_stays_under_renewal(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    for _ in 0..5 {
        let renewal = backend.renew(&lease, lease.ttl).await.unwrap();
        assert!(matches!(renewal, Renewal::Renewed { .. }), "a held lock is renewed, not {renewal:?}");
    }
    assert_eq!(take(&*backend, &request).await.token, lease.token, "renewing never changes the token");
}

async fn the_token_stays_under_late_repeats(ctx: &Context) {
    let (backend, rival) = (ctx.backend().await, ctx.backend().await);
    let request = ctx.request("key");
    let lease = take(&*backend, &request).await;
    for _ in 0..5 {
        refused(&*rival, &ctx.request("key")).await;
        assert_eq!(take(&*backend, &request).await.token, lease.token);
    }
}

async fn a_withdrawn_attempt_does_not_lower_the_next_token(ctx: &Context) {
    let backend = ctx.backend().await;
    let mut last: Option<FencingToken> = None;
    for _ in 0..5 {
        let (holder, token) = grant(ctx, &*backend).await;
        if let Some(last) = last {
            assert_rose(last, token);
        }
        last = Some(token);
        let waiter = ctx.request("key").queue(true);
        refused(&*backend, &waiter).await;
        backend.unlock(&waiter.claim).await.unwrap();
        backend.unlock(&holder).await.unwrap();
    }
}

async fn a_raised_floor_is_kept(ctx: &Context) {
    let backend = ctx.backend().await;
    let (claim, before) = grant(ctx, &*backend).await;
    backend.unlock(&claim).await.unwrap();
    let floor = FencingToken::new(before.get() + 1_000_000).unwrap();
    let admin = backend.admin().unwrap();
    admin.raise_token_floor(floor).await.unwrap();
    let (claim, after) = grant(ctx, &*backend).await;
    assert_rose(floor, after);
    backend.unlock(&claim).await.unwrap();
    admin.raise_token_floor(before).await.unwrap();
    let other = ctx.backend().await;
    let fresh = take(&*other, &ctx.request("a key that was never granted")).await;
    assert_rose(floor, fresh.token);
}

async fn a_raised_floor_is_kept_by_hand_overs(ctx: &Context) {
    let (backend, operator) = (ctx.backend().await, ctx.backend().await);
    let lease = take(&*backend, &ctx.request("key")).await;
    let floor = FencingToken::new(lease.token.get() + 1_000_000).unwrap();
    operator.admin().unwrap().raise_token_floor(floor).await.unwrap();
    match backend.hand_over(&lease, &ctx.request("key")).await.unwrap() {
        TryLock::Acquired(next) => assert_rose(floor, next.token),
        TryLock::Busy(busy) => panic!("nobody else wants the lock, yet handing over gave {busy:?}"),
    }
}

async fn the_last_token_is_shown(ctx: &Context) {
    let backend = ctx.backend().await;
    let (_, token) = grant(ctx, &*backend).await;
    let record = backend.admin().unwrap().inspect(&ctx.key("key")).await.unwrap().unwrap();
    assert_eq!(record.holders[0].token, token);
    if let Some(last) = record.last_token {
        assert_eq!(last, token, "the highest token so far is the holder's");
    }
}

async fn tokens_read_back_as_text(ctx: &Context) {
    let backend = ctx.backend().await;
    let (_, token) = grant(ctx, &*backend).await;
    assert_eq!(token.to_string().parse::<FencingToken>().unwrap(), token);
    let json = serde_json::to_string(&token).unwrap();
    assert_eq!(json, format!("\"{token}\""), "a token is a string in JSON");
    assert_eq!(FencingToken::try_from(token.get_i64()).unwrap(), token);
}

async fn b135_a_stale_token_is_refused_and_without_a_fence_an_update_is_lost(ctx: &Context) {
    let backend = ctx.backend().await;
    let fenced = Register::fenced(ctx.folder(), Arc::clone(ctx.log()));
    let unfenced = Register::unfenced(ctx.folder(), Arc::clone(ctx.log()));
    let first = take(&*backend, &ctx.brief_request("key")).await;
    let (seen, seen_unfenced) = (fenced.read(), unfenced.read());
    // The first holder sleeps past its lease; the second one works meanwhile.
    let request = ctx.request("key");
    let second = take_within(&*backend, &request, first.ttl + ctx.lateness()).await;
    assert!(fenced.write(second.token, fenced.read() + 1), "the rightful holder's write is accepted");
    assert!(unfenced.write(second.token, unfenced.read() + 1));
    // It wakes up and writes what it had worked out.
    assert!(!fenced.write(first.token, seen + 1), "a stale holder's write is refused");
    unfenced.write(first.token, seen_unfenced + 1);
    assert!(fenced.write(second.token, fenced.read() + 1), "the rightful holder goes on");
    assert_eq!(fenced.read(), 2);
    assert_eq!(unfenced.lost_updates(&ctx.events()), 1, "without a fence the second holder's update is lost");
    let late = backend.try_lock(&ctx.request("key")).await.unwrap();
    assert!(matches!(late, TryLock::Busy(_)));
}
