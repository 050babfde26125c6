//! A guard says what is true, and cleans up wherever it is dropped.

use distlock_core::{
    ErrorKind, FenceGate, LockClient, LockOptions, LockState, LostReason, MemoryGate, Operation, Release,
    Result,
};

use super::*;
use crate::decorators::Fault;

cases! { "guard":
    it_says_what_it_holds,
    two_guards_of_one_client_exclude_each_other,
    a_hundred_tasks_count_right @alone,
    tasks_of_many_clients_count_right @alone,
    a_dropped_guard_releases,
    b132_a_guard_dropped_outside_a_runtime_releases,
    a_guard_dropped_in_a_panic_releases,
    b024_a_guard_in_an_aborted_task_releases,
    a_guard_dropped_right_away_does_not_hurt_the_next,
    releasing_is_no_loss,
    a_loss_is_told_to_those_who_ask_late,
    releasing_what_is_lost_is_told_at_once,
    a_view_outlives_its_guard,
    work_is_dropped_at_the_loss,
    b050_a_body_s_result_is_not_masked,
    a_lease_is_adopted_again [Adopt],
    a_lost_lease_is_not_adopted [Adopt],
    a_stale_guard_does_not_pass_the_gate,
    renewing_by_hand_prolongs [Adopt],
}

async fn lock(ctx: &Context, client: &LockClient, ttl: Duration) -> distlock_core::LockGuard {
    client.lock_with(ctx.key("key"), &LockOptions::default().ttl(ttl)).await.unwrap()
}

fn soon(ctx: &Context) -> Duration {
    Duration::from_secs(3) + ctx.delay()
}

async fn assert_free_soon(ctx: &Context) {
    take_within(&*ctx.backend().await, &ctx.request("key"), soon(ctx)).await;
}

async fn it_says_what_it_holds(ctx: &Context) {
    let client = ctx.client().await;
    let guard = lock(ctx, &client, ctx.long()).await;
    assert_eq!(guard.key(), &ctx.key("key"));
    assert!(guard.ttl() == ctx.long() || ctx.may_cut_ttls(), "{:?} became {:?}", ctx.long(), guard.ttl());
    assert_eq!(guard.state(), LockState::Held);
    assert!(guard.is_valid());
    let left = guard.remaining();
    assert!(left <= guard.ttl() && left > guard.ttl() / 2, "{left:?} of {:?} remain", guard.ttl());
    let view = guard.view();
    assert_eq!((view.key(), view.owner(), view.token()), (guard.key(), guard.owner(), guard.token()));
    let busy = refused(&*ctx.backend().await, &ctx.request("key")).await;
    if let Some(holder) = busy.holder {
        assert_eq!((holder.owner, holder.token), (guard.owner(), guard.token()));
    }
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
    assert_eq!(view.state(), LockState::Released);
    assert!(!view.is_valid() && view.remaining().is_zero());
}

async fn two_guards_of_one_client_exclude_each_other(ctx: &Context) {
    let client = ctx.client().await;
    let guard = lock(ctx, &client, ctx.long()).await;
    assert!(client.try_lock(ctx.key("key")).await.unwrap().is_none(), "a lock is not reentrant");
    let clone = client.clone();
    assert!(clone.try_lock(ctx.key("key")).await.unwrap().is_none());
    guard.unlock().await.unwrap();
    clone.try_lock(ctx.key("key")).await.unwrap().expect("it is free").unlock().await.unwrap();
}

/// An unsynchronised counter, increased by many tasks under the lock.
async fn count(ctx: &Context, clients: &[LockClient], tasks: usize, rounds: usize) {
    let counter = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let options = LockOptions::default().ttl(ctx.long());
    let mut running = Vec::new();
    for task in 0..tasks {
        let (client, key, counter) =
            (clients[task % clients.len()].clone(), ctx.key("key"), Arc::clone(&counter));
        let (options, log) = (options.clone(), Arc::clone(ctx.log()));
        running.push(tokio::spawn(async move {
            for _ in 0..rounds {
                let guard =
                    crate::tracked::Tracked::new(client.lock_with(&key, &options).await.unwrap(), &log);
                let before = counter.load(std::sync::atomic::Ordering::SeqCst);
                tokio::task::yield_now().await;
                counter.store(before + 1, std::sync::atomic::Ordering::SeqCst);
                guard.unlock().await.unwrap();
            }
        }));
    }
    for task in running {
        task.await.unwrap();
    }
    let counted = counter.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(counted, tasks * rounds, "an update was lost under the lock");
}

async fn a_hundred_tasks_count_right(ctx: &Context) {
    count(ctx, &[ctx.client().await], 100, 3).await;
}

async fn tasks_of_many_clients_count_right(ctx: &Context) {
    let clients = [ctx.client().await, ctx.client().await, ctx.client().await, ctx.client().await];
    count(ctx, &clients, 12, 10).await;
}

async fn a_dropped_guard_releases(ctx: &Context) {
    let client = ctx.client().await;
    drop(lock(ctx, &client, ctx.long()).await);
    assert_free_soon(ctx).await;
}

async fn b132_a_guard_dropped_outside_a_runtime_releases(ctx: &Context) {
    let client = ctx.client().await;
    let guard = lock(ctx, &client, ctx.long()).await;
    let dropping = std::thread::spawn(move || drop(guard));
    tokio::task::spawn_blocking(move || dropping.join())
        .await
        .unwrap()
        .expect("dropping a guard never panics");
    assert_free_soon(ctx).await;
}

async fn a_guard_dropped_in_a_panic_releases(ctx: &Context) {
    let client = ctx.client().await;
    let guard = lock(ctx, &client, ctx.long()).await;
    let unwinding = std::thread::spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("the thread's own trouble"));
    });
    let ended = tokio::task::spawn_blocking(move || unwinding.join()).await.unwrap();
    assert!(ended.is_err(), "it panicked, and its guard did not abort the process");
    assert_free_soon(ctx).await;
}

async fn b024_a_guard_in_an_aborted_task_releases(ctx: &Context) {
    let client = ctx.client().await;
    let guard = lock(ctx, &client, ctx.long()).await;
    let task = tokio::spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    tokio::task::yield_now().await;
    task.abort();
    assert_free_soon(ctx).await;
}

async fn a_guard_dropped_right_away_does_not_hurt_the_next(ctx: &Context) {
    // A release in the background must never hit the next grant of the same key.
    let (client, script) = ctx.faulty_client().await;
    script.always(Operation::Unlock, Fault::SentTwice(Duration::from_millis(3)));
    for _ in 0..30 {
        let guard = lock(ctx, &client, ctx.long()).await;
        tokio::task::yield_now().await;
        refused(&*ctx.backend().await, &ctx.request("key")).await;
        drop(guard);
    }
}

async fn releasing_is_no_loss(ctx: &Context) {
    let client = ctx.client().await;
    let guard = lock(ctx, &client, ctx.long()).await;
    let view = guard.view();
    let watching = tokio::spawn(async move { view.lost().await });
    guard.unlock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!watching.is_finished(), "a release was announced as a loss");
    watching.abort();
}

async fn lose(ctx: &Context) -> (distlock_core::LockGuard, crate::decorators::Script) {
    let (client, script) = ctx.faulty_client().await;
    let guard = lock(ctx, &client, ctx.brief()).await;
    script.everything(Fault::Silence);
    tokio::time::timeout(ctx.brief() + ctx.lateness(), guard.lost()).await.expect("silence ends in a loss");
    (guard, script)
}

async fn a_loss_is_told_to_those_who_ask_late(ctx: &Context) {
    let (guard, _script) = lose(ctx).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let late = tokio::time::timeout(Duration::from_secs(1) + ctx.delay(), guard.lost()).await;
    assert!(late.is_ok(), "a loss is announced once and for all");
    let view = guard.view();
    assert!(matches!(view.state(), LockState::Lost(_)));
    assert!(matches!(view.state_changed(LockState::Held).await, LockState::Lost(_)));
}

async fn releasing_what_is_lost_is_told_at_once(ctx: &Context) {
    let (guard, script) = lose(ctx).await;
    let unlock = tokio::time::timeout(Duration::from_secs(1) + ctx.delay(), guard.unlock());
    let release = unlock.await.expect("the store is silent, and nobody has to wait for it").unwrap();
    assert!(matches!(release, Release::NotHeld(_)));
    script.heal();
}

async fn a_view_outlives_its_guard(ctx: &Context) {
    let client = ctx.client().await;
    let guard = lock(ctx, &client, ctx.long()).await;
    let view = guard.view();
    drop(guard);
    assert!(!view.is_valid(), "a dropped guard holds nothing");
    assert!(view.remaining().is_zero());
    assert_free_soon(ctx).await;
    assert!(!view.is_valid());
}

async fn work_is_dropped_at_the_loss(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let (sender, dropped) = tokio::sync::oneshot::channel();
    script.always(Operation::Renew, Fault::Silence);
    let options = LockOptions::default().ttl(ctx.brief());
    let body = client.with_lock_with(ctx.key("key"), &options, |_| async move {
        // The receiver learns when this is dropped.
        let _dropped: tokio::sync::oneshot::Sender<()> = sender;
        std::future::pending::<()>().await;
    });
    let error = tokio::time::timeout(ctx.brief() + ctx.lateness(), body)
        .await
        .expect("the loss ends it")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    dropped.await.expect_err("nothing was sent, the body was dropped");
}

async fn b050_a_body_s_result_is_not_masked(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let options = LockOptions::default().ttl(ctx.renewable());
    let at_work = script.clone();
    let out: Result<std::result::Result<(), &str>> = client
        .with_lock_with(ctx.key("key"), &options, |_| async move {
            at_work.always(Operation::Unlock, Fault::Refused(ErrorKind::Unavailable));
            Err("the body's own trouble")
        })
        .await;
    assert_eq!(out.expect("the release's trouble hides nothing"), Err("the body's own trouble"));
    script.heal();
}

async fn a_lease_is_adopted_again(ctx: &Context) {
    let (one, two) = (ctx.client().await, ctx.client().await);
    let guard = lock(ctx, &one, ctx.long()).await;
    let (owner, token) = (guard.owner(), guard.token());
    let lease = guard.into_lease();
    assert_eq!((lease.claim.owner, lease.token), (owner, token));
    refused(&*ctx.backend().await, &ctx.request("key")).await;
    // As it would travel: written down and read back.
    let lease = serde_json::from_str(&serde_json::to_string(&lease).unwrap()).unwrap();
    let guard = two.adopt(lease).await.unwrap();
    assert_eq!((guard.owner(), guard.token()), (owner, token));
    assert!(guard.is_valid());
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
    take(&*ctx.backend().await, &ctx.request("key")).await;
}

async fn a_lost_lease_is_not_adopted(ctx: &Context) {
    let client = ctx.client().await;
    let lease = lock(ctx, &client, ctx.long()).await.into_lease();
    ctx.backend().await.unlock(&lease.claim).await.unwrap();
    let error = client.adopt(lease.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    take(&*ctx.backend().await, &ctx.request("key")).await;
    assert_eq!(client.adopt(lease).await.unwrap_err().kind(), ErrorKind::Lost);
    refused(&*ctx.backend().await, &ctx.request("key")).await;
}

async fn a_stale_guard_does_not_pass_the_gate(ctx: &Context) {
    let gate = MemoryGate::default();
    let (guard, script) = lose(ctx).await;
    gate.admit(guard.key(), guard.token()).await.unwrap();
    let rival = ctx.request("key");
    let lease = take_within(&*ctx.backend().await, &rival, ctx.brief() + ctx.lateness()).await;
    gate.admit(&rival.claim.key, lease.token).await.unwrap();
    let error = gate.admit(guard.key(), guard.token()).await.unwrap_err();
    assert!(error.is_lost(), "a stale token is refused: {error}");
    gate.admit(&rival.claim.key, lease.token).await.unwrap();
    script.heal();
}

async fn renewing_by_hand_prolongs(ctx: &Context) {
    let client = ctx.client().await;
    let guard = lock(ctx, &client, ctx.long()).await;
    let before = guard.valid_until();
    tokio::time::sleep(Duration::from_millis(20)).await;
    guard.renew().await.unwrap();
    assert!(guard.valid_until() > before);
    let token = guard.token();
    ctx.backend().await.unlock(&distlock_core::Claim::new(ctx.key("key"), guard.owner())).await.unwrap();
    assert_eq!(guard.renew().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(matches!(guard.state(), LockState::Lost(LostReason::Expired | LostReason::Stolen)));
    assert_eq!(guard.token(), token);
}
