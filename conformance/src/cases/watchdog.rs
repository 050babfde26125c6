//! A client renews what it holds, notices each loss in time, and says why.

use distlock_core::{ErrorKind, LostReason, Operation, RenewPolicy};

use super::*;
use crate::decorators::Fault;

cases! { "watchdog":
    it_keeps_a_lock_for_more_than_three_ttls,
    it_ends_with_the_release,
    it_ends_with_a_dropped_guard,
    it_ends_with_a_panicking_holder,
    it_ends_with_an_aborted_holder,
    a_short_silence_is_survived,
    a_lock_taken_again_is_renewed_again [Admin],
    answers_lost_on_the_way_are_made_good,
    every_error_kind_is_survived,
    by_hand_it_renews_only_when_told,
    many_locks_are_kept [ManyHeld],
    asking_the_guard_costs_nothing,
}

async fn it_keeps_a_lock_for_more_than_three_ttls(ctx: &Context) {
    let (client, rival) = (ctx.client().await, ctx.backend().await);
    let guard = held(ctx, &client).await;
    let token = guard.guard().token();
    let until = ctx.clock().now().plus(guard.guard().ttl() * 7 / 2);
    while ctx.clock().now() < until {
        if !guard.is_valid() {
            assert!(ctx.delay() > ctx.renewable() / 4, "a lock that is renewed was lost");
            return ctx.note_stall();
        }
        refused(&*rival, &ctx.request("key")).await;
        tokio::time::sleep(ctx.renewable() / 20).await;
    }
    assert_eq!(guard.guard().token(), token);
    guard.unlock().await.unwrap();
}

/// Watches the script for two ttls, in which no renewal may be sent, and asserts the lock is free.
async fn assert_no_renewal(ctx: &Context, script: &crate::decorators::Script) {
    let rival = ctx.backend().await;
    take_within(&*rival, &ctx.request("key"), Duration::from_secs(3) + ctx.lateness()).await;
    let before = script.calls(Operation::Renew);
    tokio::time::sleep(ctx.renewable()).await;
    assert_eq!(script.calls(Operation::Renew), before, "a lock was renewed that nobody holds any more");
}

async fn it_ends_with_the_release(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    tokio::time::sleep(ctx.renewable() / 2).await;
    guard.unlock().await.unwrap();
    assert_no_renewal(ctx, &script).await;
}

async fn it_ends_with_a_dropped_guard(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    drop(guard);
    assert_no_renewal(ctx, &script).await;
}

async fn it_ends_with_a_panicking_holder(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    let holder = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("the holder's own trouble"));
    });
    assert!(holder.await.unwrap_err().is_panic());
    assert_no_renewal(ctx, &script).await;
    client.lock(ctx.key("another key")).await.expect("the client lives on").unlock().await.unwrap();
}

async fn it_ends_with_an_aborted_holder(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    let holder = tokio::spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    tokio::task::yield_now().await;
    holder.abort();
    let _ = holder.await;
    assert_no_renewal(ctx, &script).await;
}

async fn a_short_silence_is_survived(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    for _ in 0..3 {
        script.once(Operation::Renew, Fault::Silence);
        tokio::time::sleep(ctx.renewable() * 2 / 3).await;
        if !guard.is_valid() {
            assert!(ctx.delay() > ctx.renewable() / 6, "one renewal without an answer cost the lock");
            return ctx.note_stall();
        }
    }
    guard.unlock().await.unwrap();
}

async fn a_lock_taken_again_is_renewed_again(ctx: &Context) {
    let client = ctx.client().await;
    let first = held(ctx, &client).await;
    let other = ctx.backend().await;
    other.admin().unwrap().force_unlock(&ctx.key("key")).await.unwrap();
    assert_eq!(lost(ctx, &first).await, LostReason::Expired);
    let second = held(ctx, &client).await;
    tokio::time::sleep(ctx.renewable() * 2).await;
    if !second.is_valid() {
        assert!(ctx.delay() > ctx.renewable() / 4, "the second grant of the key was not renewed");
        return ctx.note_stall();
    }
    drop(first);
    tokio::time::sleep(Duration::from_millis(200)).await;
    refused(&*other, &ctx.request("key")).await;
    second.unlock().await.unwrap();
}

async fn answers_lost_on_the_way_are_made_good(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    for _ in 0..4 {
        script.once(Operation::Renew, Fault::AnswerLost);
        tokio::time::sleep(ctx.renewable() / 2).await;
    }
    if !guard.is_valid() {
        assert!(ctx.delay() > ctx.renewable() / 6, "lost answers cost the lock");
        return ctx.note_stall();
    }
    guard.unlock().await.unwrap();
}

async fn every_error_kind_is_survived(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    let kinds = [ErrorKind::Overloaded, ErrorKind::Other, ErrorKind::Corrupt, ErrorKind::Misconfigured];
    for kind in kinds {
        script.once(Operation::Renew, Fault::Refused(kind));
        let before = script.calls(Operation::Renew);
        until("two more renewals", ctx.renewable() * 2, || async {
            (script.calls(Operation::Renew) >= before + 2).then_some(())
        })
        .await;
    }
    if !guard.is_valid() {
        assert!(ctx.delay() > ctx.renewable() / 6, "one failed renewal at a time cost the lock");
        return ctx.note_stall();
    }
    guard.unlock().await.unwrap();
}

async fn by_hand_it_renews_only_when_told(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let options = renewable(ctx).renew(RenewPolicy::Manual);
    let guard = ctx.track(client.lock_with(ctx.key("key"), &options).await.unwrap());
    let first = guard.guard().valid_until();
    tokio::time::sleep(ctx.renewable() / 2).await;
    assert_eq!(script.calls(Operation::Renew), 0, "nobody asked for a renewal");
    match guard.guard().renew().await {
        Ok(()) => assert!(guard.guard().valid_until() > first, "a renewal prolongs the validity"),
        Err(error) => {
            assert!(ctx.delay() > ctx.renewable() / 6, "{error}");
            return ctx.note_stall();
        }
    }
    assert_eq!(lost(ctx, &guard).await, LostReason::Expired);
    assert_eq!(guard.guard().renew().await.unwrap_err().kind(), ErrorKind::Lost);
}

async fn many_locks_are_kept(ctx: &Context) {
    let client = ctx.client().await;
    let mut guards = Vec::new();
    for n in 0..60 {
        guards.push(ctx.track(client.lock_with(ctx.key(format!("key {n}")), &renewable(ctx)).await.unwrap()));
    }
    tokio::time::sleep(ctx.renewable() * 2).await;
    for guard in &guards {
        if !guard.is_valid() {
            assert!(ctx.delay() > ctx.renewable() / 6, "one of many locks was lost");
            return ctx.note_stall();
        }
    }
    for guard in guards {
        guard.unlock().await.unwrap();
    }
}

async fn asking_the_guard_costs_nothing(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = client.lock(ctx.key("key")).await.unwrap();
    let before = std::time::Instant::now();
    for _ in 0..20_000 {
        assert!(guard.is_valid());
    }
    let each = before.elapsed() / 20_000;
    assert!(each < Duration::from_micros(100), "asking takes {each:?}");
    assert_eq!(script.calls(Operation::Renew), 0, "asking the guard asks nobody else");
    guard.unlock().await.unwrap();
}
