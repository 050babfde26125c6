//! A network that breaks: holders are told in time, waiters ride it out, and nothing is left behind.

use distlock_core::{ErrorKind, LockClient, LockGuard, LockOptions, LockState, LostReason, WaitPolicy};
use tokio::task::JoinHandle;

use super::*;
use crate::tracked::Tracked;

cases! { "network":
    b006_silence_ends_in_a_loss_by_the_deadline @alone [Silence],
    unanswered_renewals_end_in_a_loss_by_the_deadline @alone [Silence],
    an_outage_that_lasts_ends_in_a_loss_by_the_deadline @alone [Outage],
    b005_a_silenced_holder_is_succeeded @alone [Silence, Aside],
    resets_do_not_cost_the_lock @alone [ResetConnections],
    a_short_outage_does_not_cost_the_lock @alone [Outage],
    slow_answers_do_not_cost_the_lock @alone [SlowAnswers],
    a_waiter_rides_out_a_reset @alone [ResetConnections],
    a_waiter_rides_out_an_outage @alone [Outage],
    a_wake_up_lost_in_a_reset_costs_only_time @alone [ResetConnections, Aside],
    a_wake_up_lost_in_silence_costs_only_time @alone [Silence, Aside],
    a_release_during_an_outage_is_made_good @alone [Outage],
    a_guard_dropped_in_silence_is_released_afterwards @alone [Silence],
    many_short_outages_leave_nothing_behind @alone [Outage],
    an_unreachable_store_is_named @alone [Outage],
}

const AMPLE: Duration = Duration::from_secs(20);

/// Waits for the loss, which has to come by the end of the validity, with a warning before it.
async fn lost_with_a_warning(ctx: &Context, guard: &Tracked) {
    let limit = guard.guard().ttl() + ctx.lateness();
    let view = guard.guard().view();
    let first = tokio::time::timeout(limit, view.state_changed(LockState::Held)).await;
    if first != Ok(LockState::Jeopardy) {
        assert!(ctx.delay() > ctx.renewable() / 4, "without an answer it went from held to {first:?}");
    }
    assert_eq!(lost(ctx, guard).await, LostReason::Unreachable);
    assert!(!guard.is_valid());
}

async fn b006_silence_ends_in_a_loss_by_the_deadline(ctx: &Context) {
    let client = ctx.exposed_client().await;
    let guard = held(ctx, &client).await;
    ctx.faults().silence().await;
    lost_with_a_warning(ctx, &guard).await;
    ctx.faults().heal().await;
    works_again(ctx, &client, "afterwards").await;
    assert!(!guard.is_valid(), "a lost lock came back");
}

async fn unanswered_renewals_end_in_a_loss_by_the_deadline(ctx: &Context) {
    let client = ctx.exposed_client().await;
    let guard = held(ctx, &client).await;
    // The store goes on prolonging the lease; its holder can't know.
    ctx.faults().silence_answers().await;
    lost_with_a_warning(ctx, &guard).await;
    ctx.faults().heal().await;
    works_again(ctx, &client, "afterwards").await;
    assert!(!guard.is_valid(), "a lost lock came back");
    drop(guard);
    let limit = ctx.renewable() + ctx.lateness() + Duration::from_secs(3);
    take_within(&*ctx.backend().await, &ctx.request("key"), limit).await;
}

async fn an_outage_that_lasts_ends_in_a_loss_by_the_deadline(ctx: &Context) {
    let client = ctx.exposed_client().await;
    let guard = held(ctx, &client).await;
    ctx.faults().outage().await;
    lost_with_a_warning(ctx, &guard).await;
    ctx.faults().heal().await;
    works_again(ctx, &client, "afterwards").await;
    assert!(!guard.is_valid(), "a lost lock came back");
}

async fn b005_a_silenced_holder_is_succeeded(ctx: &Context) {
    let (client, rival) = (ctx.exposed_client().await, ctx.backend().await);
    let guard = held(ctx, &client).await;
    ctx.faults().silence().await;
    let request = ctx.request("key");
    let next = take_within(&*rival, &request, ctx.renewable() + ctx.lateness()).await;
    assert!(next.token > guard.guard().token());
    assert!(!guard.is_valid(), "two holders at once");
    ctx.faults().heal().await;
    // Whatever its client does now leaves the successor alone.
    drop(guard);
    works_again(ctx, &client, "afterwards").await;
    assert_eq!(take(&*rival, &request).await.token, next.token, "its successor still holds the lock");
}

/// Asserts that the lock of `guard` goes on while `during` runs and after it, as the machine lets us see.
async fn goes_on(ctx: &Context, guard: Tracked, what: &str, during: impl Future<Output = ()>) {
    let view = guard.guard().view();
    let token = view.token();
    let lost = async {
        let reason = view.lost().await;
        // A machine that stands still runs into the deadline, and into nothing before it.
        (reason, ctx.clock().now() < view.valid_until())
    };
    tokio::select! {
        (reason, early) = lost => {
            let stalled = ctx.delay() > guard.guard().ttl() / 8;
            assert!(!early && stalled, "{what} cost the lock: {reason}");
            return ctx.note_stall();
        }
        () = during => {}
    }
    assert_eq!(guard.guard().token(), token);
    let release = guard.unlock().await.expect("the store works");
    assert_eq!(release, distlock_core::Release::Released, "{what} cost the lock");
}

async fn resets_do_not_cost_the_lock(ctx: &Context) {
    let client = ctx.exposed_client().await;
    let guard = held(ctx, &client).await;
    let resets = async {
        for _ in 0..4 {
            ctx.faults().reset_connections().await;
            tokio::time::sleep(ctx.renewable() * 2 / 3).await;
        }
    };
    goes_on(ctx, guard, "a reset", resets).await;
}

async fn a_short_outage_does_not_cost_the_lock(ctx: &Context) {
    let client = ctx.exposed_client().await;
    let ttl = ctx.renewable() * 3;
    let guard = client.lock_with(ctx.key("key"), &LockOptions::default().ttl(ttl)).await.unwrap();
    let guard = ctx.track(guard);
    let view = guard.guard().view();
    let outage = async {
        ctx.faults().outage().await;
        // Past the time at which a renewal is due.
        tokio::time::sleep(ttl * 2 / 5).await;
        ctx.faults().heal().await;
        let last = view.valid_until();
        until("a renewal", ttl * 2, || async { (view.valid_until() > last).then_some(()) }).await;
    };
    goes_on(ctx, guard, "an outage of less than half the ttl", outage).await;
}

async fn slow_answers_do_not_cost_the_lock(ctx: &Context) {
    let client = ctx.exposed_client().await;
    let guard = held(ctx, &client).await;
    // Well within the time limit of a call, which is a sixth of the ttl.
    ctx.faults().slow_answers(ctx.renewable() / 20).await;
    goes_on(ctx, guard, "an answer a little late", tokio::time::sleep(ctx.renewable() * 2)).await;
}

/// A waiter on a connection that faults strike, and the holder it waits for, on one they spare if possible.
async fn waiting(ctx: &Context) -> (LockGuard, JoinHandle<distlock_core::Result<LockGuard>>) {
    let options = LockOptions::default().ttl(ctx.long()).wait(WaitPolicy::UpTo(AMPLE * 2));
    let holder = ctx.client().await.lock_with(ctx.key("key"), &options).await.unwrap();
    let (client, key) = (ctx.exposed_client().await, ctx.key("key"));
    let waiter = tokio::spawn(async move { client.lock_with(key, &options).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiter.is_finished(), "the lock is held");
    (holder, waiter)
}

async fn served(ctx: &Context, waiter: JoinHandle<distlock_core::Result<LockGuard>>) {
    let limit = AMPLE + ctx.delay();
    let guard = tokio::time::timeout(limit, waiter).await.expect("the waiter is served").unwrap();
    guard.expect("trouble that passes does not end a wait").unlock().await.unwrap();
}

async fn a_waiter_rides_out_a_reset(ctx: &Context) {
    let (holder, waiter) = waiting(ctx).await;
    ctx.faults().reset_connections().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    holder.unlock().await.unwrap();
    served(ctx, waiter).await;
}

async fn a_waiter_rides_out_an_outage(ctx: &Context) {
    let (holder, waiter) = waiting(ctx).await;
    ctx.faults().outage().await;
    // Longer than one poll, so that the waiter does notice.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!waiter.is_finished(), "trouble that passes does not end a wait");
    ctx.faults().heal().await;
    holder.unlock().await.unwrap();
    served(ctx, waiter).await;
}

async fn a_wake_up_lost_in_a_reset_costs_only_time(ctx: &Context) {
    for _ in 0..3 {
        let (holder, waiter) = waiting(ctx).await;
        let (_, released) = tokio::join!(ctx.faults().reset_connections(), holder.unlock());
        released.unwrap();
        served(ctx, waiter).await;
    }
}

async fn a_wake_up_lost_in_silence_costs_only_time(ctx: &Context) {
    let (holder, waiter) = waiting(ctx).await;
    ctx.faults().silence().await;
    holder.unlock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    ctx.faults().heal().await;
    served(ctx, waiter).await;
}

async fn a_release_during_an_outage_is_made_good(ctx: &Context) {
    let client = ctx.exposed_client().await;
    let options = LockOptions::default().ttl(ctx.long());
    let guard = client.lock_with(ctx.key("key"), &options).await.unwrap();
    ctx.faults().outage().await;
    let error = guard.unlock().await.expect_err("nobody acknowledged the release");
    assert!(matches!(error.kind(), ErrorKind::Unavailable), "{error}");
    ctx.faults().heal().await;
    // With a ttl of a minute, only the client's own sweeping is this fast.
    take_within(&*ctx.backend().await, &ctx.request("key"), AMPLE + ctx.delay()).await;
}

async fn a_guard_dropped_in_silence_is_released_afterwards(ctx: &Context) {
    let client = ctx.exposed_client().await;
    let options = LockOptions::default().ttl(ctx.long());
    let guard = client.lock_with(ctx.key("key"), &options).await.unwrap();
    ctx.faults().silence().await;
    drop(guard);
    tokio::time::sleep(Duration::from_millis(300)).await;
    ctx.faults().heal().await;
    take_within(&*ctx.backend().await, &ctx.request("key"), AMPLE + ctx.delay()).await;
}

async fn many_short_outages_leave_nothing_behind(ctx: &Context) {
    let mut rng = ctx.rng();
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let client = ctx.exposed_client().await;
        for _ in 0..6 {
            let (client, key) = (client.clone(), ctx.key("key"));
            let options = LockOptions::default().ttl(ctx.renewable() * 4).wait(WaitPolicy::UpTo(AMPLE * 2));
            waiters.push(tokio::spawn(async move {
                let guard = client.lock_with(key, &options).await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
                // May fail in an outage; it is made good.
                drop(guard.unlock().await);
                Ok::<_, distlock_core::Error>(())
            }));
        }
    }
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(rng.u64(50..300))).await;
        ctx.faults().outage().await;
        tokio::time::sleep(Duration::from_millis(rng.u64(20..300))).await;
        ctx.faults().heal().await;
    }
    for waiter in waiters {
        let served = tokio::time::timeout(AMPLE * 2 + ctx.delay(), waiter).await;
        served.expect("every waiter is served").unwrap().expect("trouble that passes does not end a wait");
    }
    let backend = ctx.backend().await;
    let next = ctx.request("key");
    take_within(&*backend, &next, Duration::from_secs(10) + ctx.delay()).await;
    if let Some(admin) = backend.admin() {
        let waiters = admin.inspect(&next.claim.key).await.unwrap().unwrap().waiters;
        assert_eq!(waiters.unwrap_or(0), 0, "nobody waits any more");
    }
}

async fn an_unreachable_store_is_named(ctx: &Context) {
    let established = ctx.exposed_client().await;
    ctx.faults().outage().await;
    let limit = Duration::from_secs(15) + ctx.delay();
    // Some backends connect at the first call.
    let first = tokio::time::timeout(limit, async {
        let client = LockClient::new(ctx.connect_exposed().await?);
        client.try_lock(ctx.key("key")).await.map(|_| ())
    });
    let again = tokio::time::timeout(limit, async { established.try_lock(ctx.key("key")).await.map(|_| ()) });
    let (first, again) = tokio::join!(first, again);
    for outcome in [first, again] {
        let error = outcome.expect("no call outlasts its own time limit").expect_err("the store is away");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.backend(), Some(ctx.info().name), "which store? {error}");
        assert!(error.operation().is_some(), "doing what? {error}");
        assert!(error.is_retryable(), "an outage passes: {error}");
    }
    ctx.faults().heal().await;
    works_again(ctx, &established, "afterwards").await;
}
