//! A loss is noticed by the deadline, announced, told apart, and final.

use distlock_core::{ErrorKind, LockState, LostReason, Operation};

use super::*;
use crate::decorators::Fault;

cases! { "loss":
    silence_ends_in_a_loss_by_the_deadline,
    jeopardy_comes_before_the_loss,
    refused_renewals_end_in_a_loss_by_the_deadline,
    denied_renewals_say_so,
    a_forced_release_is_noticed [Admin],
    a_late_answer_brings_nothing_back,
    the_longest_hold_ends_renewal_and_nothing_else,
}

async fn silence_ends_in_a_loss_by_the_deadline(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    script.everything(Fault::Silence);
    assert_eq!(lost(ctx, &guard).await, LostReason::Unreachable);
    assert!(!guard.is_valid());
    assert_eq!(guard.state(), LockState::Lost(LostReason::Unreachable));
    assert!(guard.guard().remaining().is_zero());
    script.heal();
    // Nothing brings it back, and another client gets it.
    take_within(&*ctx.backend().await, &ctx.request("key"), ctx.renewable() + ctx.lateness()).await;
    assert!(!guard.is_valid());
}

async fn jeopardy_comes_before_the_loss(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    script.everything(Fault::Silence);
    let view = guard.guard().view();
    let limit = guard.guard().ttl() + ctx.lateness();
    let first =
        tokio::time::timeout(limit, view.state_changed(LockState::Held)).await.expect("its state changes");
    if first != LockState::Jeopardy {
        assert!(ctx.delay() > ctx.renewable() / 4, "the lock went from held to {first:?} without a warning");
        return ctx.note_stall();
    }
    assert!(guard.is_valid(), "in jeopardy the lock may still be relied on");
    let second = tokio::time::timeout(limit, view.state_changed(first)).await.expect("its state changes");
    assert!(matches!(second, LockState::Lost(_)), "after jeopardy comes the loss, not {second:?}");
}

async fn refused_renewals_end_in_a_loss_by_the_deadline(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    script.always(Operation::Renew, Fault::Refused(ErrorKind::Unavailable));
    assert_eq!(lost(ctx, &guard).await, LostReason::Unreachable);
    assert!(!guard.is_valid());
}

async fn denied_renewals_say_so(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    script.always(Operation::Renew, Fault::Refused(ErrorKind::PermissionDenied));
    assert_eq!(lost(ctx, &guard).await, LostReason::Denied);
}

async fn a_forced_release_is_noticed(ctx: &Context) {
    let client = ctx.client().await;
    let guard = held(ctx, &client).await;
    let other = ctx.backend().await;
    other.admin().unwrap().force_unlock(&ctx.key("key")).await.unwrap();
    take(&*other, &ctx.request("key")).await;
    assert_eq!(lost(ctx, &guard).await, LostReason::Stolen);
    refused(&*ctx.backend().await, &ctx.request("key")).await;
}

async fn a_late_answer_brings_nothing_back(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = held(ctx, &client).await;
    let ttl = guard.guard().ttl();
    // The store prolongs the lease; the holder learns of it when its own validity is over.
    script.always(Operation::Renew, Fault::AnsweredLate(ttl * 2));
    lost(ctx, &guard).await;
    tokio::time::sleep(ttl).await;
    assert!(!guard.is_valid(), "a lost lock came back");
    let error = guard.guard().renew().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
}

async fn the_longest_hold_ends_renewal_and_nothing_else(ctx: &Context) {
    let client = ctx.client().await;
    let options = renewable(ctx).max_hold(ctx.renewable());
    let rival = ctx.backend().await;
    let guard = ctx.track(client.lock_with(ctx.key("key"), &options).await.unwrap());
    refused(&*rival, &ctx.request("key")).await;
    let limit = ctx.renewable() * 2 + ctx.lateness();
    let reason =
        tokio::time::timeout(limit, guard.guard().lost()).await.expect("renewal ends, and then the lease");
    assert_eq!(reason, LostReason::MaxHold);
    take_within(&*rival, &ctx.request("key"), ctx.lateness()).await;
}
