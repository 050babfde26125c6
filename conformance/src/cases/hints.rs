//! Wake-ups are hints: they may come for nothing, late or never, and nobody is stuck.

use distlock_core::{ErrorKind, LockOptions, Operation, WaitPolicy};

use super::*;
use crate::decorators::Fault;

cases! { "hints":
    mute_hints_cost_only_time,
    failing_hints_cost_only_time,
    hints_for_nothing_grant_nothing,
    a_release_between_answer_and_watch_is_not_missed [Push],
    a_dropped_watch_leaves_nothing_behind,
    b052_a_fresh_client_misses_no_release,
}

const AMPLE: Duration = Duration::from_secs(20);

fn patient(ctx: &Context, patience: Duration) -> LockOptions {
    LockOptions::default().ttl(ctx.long()).wait(WaitPolicy::UpTo(patience))
}

async fn served_under(ctx: &Context, fault: Fault) {
    let (client, script) = ctx.faulty_client().await;
    script.always(Operation::Watch, fault);
    let backend = ctx.backend().await;
    for _ in 0..3 {
        let holder = ctx.request("key");
        take(&*backend, &holder).await;
        let waiter = {
            let (client, key, options) = (client.clone(), ctx.key("key"), patient(ctx, AMPLE));
            tokio::spawn(async move { client.lock_with(key, &options).await?.unlock().await })
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        backend.unlock(&holder.claim).await.unwrap();
        // The longest pause between two attempts is 1 s, with some jitter.
        let limit = Duration::from_secs(3) + ctx.delay();
        tokio::time::timeout(limit, waiter)
            .await
            .expect("a waiter without hints asks by itself")
            .unwrap()
            .unwrap();
    }
}

async fn mute_hints_cost_only_time(ctx: &Context) {
    served_under(ctx, Fault::Silence).await;
}

async fn failing_hints_cost_only_time(ctx: &Context) {
    served_under(ctx, Fault::Refused(ErrorKind::Unavailable)).await;
}

async fn hints_for_nothing_grant_nothing(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    let lease = take(&*backend, &holder).await;
    let request = ctx.request("key").queue(ctx.info().supports.queue);
    for _ in 0..20 {
        // As if a hint had come: the answer is still that the lock is held.
        refused(&*backend, &request).await;
    }
    assert_eq!(take(&*backend, &holder).await.token, lease.token);
}

async fn a_release_between_answer_and_watch_is_not_missed(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    for queue in [true, false] {
        let (holder, waiter) = (ctx.request("key"), ctx.request("key").queue(queue));
        take(&*one, &holder).await;
        let busy = refused(&*two, &waiter).await;
        one.unlock(&holder.claim).await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), two.watch_release(&waiter.claim, &busy))
            .await
            .expect("the cursor makes up for a release before the watch began")
            .unwrap();
        take(&*two, &waiter).await;
        two.unlock(&waiter.claim).await.unwrap();
    }
}

async fn a_dropped_watch_leaves_nothing_behind(ctx: &Context) {
    let backend = ctx.backend().await;
    let (holder, waiter) = (ctx.request("key"), ctx.request("key").queue(true));
    take(&*backend, &holder).await;
    for _ in 0..20 {
        let busy = refused(&*backend, &waiter).await;
        let watch = backend.watch_release(&waiter.claim, &busy);
        assert!(tokio::time::timeout(Duration::from_millis(2), watch).await.is_err(), "nothing was released");
    }
    backend.unlock(&waiter.claim).await.unwrap();
    backend.unlock(&holder.claim).await.unwrap();
    take(&*backend, &ctx.request("key")).await;
}

async fn b052_a_fresh_client_misses_no_release(ctx: &Context) {
    let backend = ctx.backend().await;
    for _ in 0..8 {
        let holder = ctx.request("key");
        take(&*backend, &holder).await;
        let client = ctx.client().await;
        let waiter = {
            let (key, options) = (ctx.key("key"), patient(ctx, AMPLE));
            tokio::spawn(async move { client.lock_with(key, &options).await?.unlock().await })
        };
        tokio::time::sleep(Duration::from_millis(ctx.rng().u64(..20))).await;
        backend.unlock(&holder.claim).await.unwrap();
        let limit = Duration::from_secs(3) + ctx.delay();
        tokio::time::timeout(limit, waiter)
            .await
            .expect("the first wait of a client works")
            .unwrap()
            .unwrap();
    }
}
