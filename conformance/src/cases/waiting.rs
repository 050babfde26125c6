//! Waiters get the lock when it is free, give up when they said they would, and miss nothing.

use distlock_core::{Claim, Deadline, LockOptions, LockRequest, Operation, Queueing, WaitPolicy};

use super::*;

cases! { "waiting":
    a_waiter_gets_the_lock_on_release,
    a_backend_waits_by_itself,
    b046_losing_a_race_is_not_giving_up,
    every_waiter_is_served,
    a_holder_that_runs_out_is_succeeded,
    outside_the_queue_works_too,
    strictly_in_the_queue_works_too [Queue],
    a_herd_asks_no_more_than_a_pair,
    the_body_runs_only_under_the_lock,
}

fn patient(ctx: &Context, patience: Duration) -> LockOptions {
    LockOptions::default().ttl(ctx.long()).wait(WaitPolicy::UpTo(patience))
}

const AMPLE: Duration = Duration::from_secs(20);

async fn a_waiter_gets_the_lock_on_release(ctx: &Context) {
    let (one, two) = (ctx.client().await, ctx.client().await);
    let holder = one.lock(ctx.key("key")).await.unwrap();
    let token = holder.token();
    let waiter = {
        let (two, key) = (two.clone(), ctx.key("key"));
        tokio::spawn(async move { two.lock(key).await })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiter.is_finished(), "the lock is held");
    holder.unlock().await.unwrap();
    let guard = tokio::time::timeout(AMPLE, waiter).await.expect("the waiter is served").unwrap().unwrap();
    assert!(guard.token() > token);
    guard.unlock().await.unwrap();
}

async fn a_backend_waits_by_itself(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let holder = ctx.request("key");
    take(&*one, &holder).await;
    let request = ctx.request("key").queue(ctx.info().supports.queue);
    let waiter = {
        let (two, request, clock) = (Arc::clone(&two), request.clone(), ctx.clock());
        tokio::spawn(async move { two.lock(&request, Deadline::after(&clock, AMPLE)).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    one.unlock(&holder.claim).await.unwrap();
    let lease = waiter.await.unwrap().unwrap();
    assert_eq!(lease.claim, request.claim);
}

async fn b046_losing_a_race_is_not_giving_up(ctx: &Context) {
    let holder = ctx.client().await.lock(ctx.key("key")).await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..10 {
        let (client, key, options) = (ctx.client().await, ctx.key("key"), patient(ctx, AMPLE));
        waiters.push(tokio::spawn(async move {
            let guard = client.lock_with(key, &options).await?;
            // What it does under the lock, while the others lose the race for it.
            tokio::time::sleep(Duration::from_millis(100)).await;
            guard.unlock().await
        }));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    holder.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().expect("everybody is served within its patience");
    }
}

async fn every_waiter_is_served(ctx: &Context) {
    let client = ctx.client().await;
    let holder = client.lock(ctx.key("key")).await.unwrap();
    let waiters: Vec<_> = (0..40)
        .map(|_| {
            let (client, key) = (client.clone(), ctx.key("key"));
            tokio::spawn(async move { client.lock(key).await?.unlock().await })
        })
        .collect();
    holder.unlock().await.unwrap();
    for waiter in waiters {
        tokio::time::timeout(AMPLE, waiter).await.expect("every waiter is served").unwrap().unwrap();
    }
}

async fn a_holder_that_runs_out_is_succeeded(ctx: &Context) {
    let lease = take(&*ctx.backend().await, &ctx.brief_request("key")).await;
    let client = ctx.client().await;
    let limit = lease.ttl + ctx.lateness() + Duration::from_secs(2);
    let guard = client.lock_with(ctx.key("key"), &patient(ctx, limit)).await.unwrap();
    assert!(guard.token() > lease.token);
    guard.unlock().await.unwrap();
}

async fn outside_the_queue_works_too(ctx: &Context) {
    let (client, backend) = (ctx.client().await, ctx.backend().await);
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let waiter = {
        let (key, options) = (ctx.key("key"), patient(ctx, AMPLE).queue(Queueing::Never));
        tokio::spawn(async move { client.lock_with(key, &options).await?.unlock().await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    backend.unlock(&holder.claim).await.unwrap();
    waiter.await.unwrap().unwrap();
}

async fn strictly_in_the_queue_works_too(ctx: &Context) {
    let client = ctx.client().await;
    let options = patient(ctx, AMPLE).queue(Queueing::Strict);
    let holder = client.lock_with(ctx.key("key"), &options).await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let (client, key, options) = (client.clone(), ctx.key("key"), options.clone());
            tokio::spawn(async move { client.lock_with(key, &options).await?.unlock().await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    holder.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
}

async fn a_herd_asks_no_more_than_a_pair(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let holder = client.lock(ctx.key("key")).await.unwrap();
    let asked = script.calls(Operation::TryLock);
    let herd: Vec<_> = (0..50)
        .map(|_| {
            let (client, key) = (client.clone(), ctx.key("key"));
            tokio::spawn(async move { client.lock(key).await?.unlock().await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = script.calls(Operation::TryLock) - asked;
    assert!(asked <= 12, "fifty waiters of one client asked the store {asked} times in two seconds");
    holder.unlock().await.unwrap();
    for waiter in herd {
        tokio::time::timeout(AMPLE, waiter).await.expect("every waiter is served").unwrap().unwrap();
    }
}

async fn the_body_runs_only_under_the_lock(ctx: &Context) {
    let client = ctx.client().await;
    let backend = ctx.backend().await;
    let holder = LockRequest::new(Claim::mint(ctx.key("key")), ctx.long());
    take(&*backend, &holder).await;
    let options = patient(ctx, Duration::from_millis(100));
    let result = client
        .with_lock_with(ctx.key("key"), &options, |_| async { panic!("it runs without the lock") })
        .await;
    assert!(result.unwrap_err().is_wait_timeout());
    backend.unlock(&holder.claim).await.unwrap();
    let rival = Arc::clone(&backend);
    let request = ctx.request("key");
    let out = client
        .with_lock(ctx.key("key"), |view| async move {
            refused(&*rival, &request).await;
            assert!(view.is_valid());
            view.token()
        })
        .await
        .unwrap();
    assert!(take(&*backend, &ctx.request("key")).await.token > out, "the lock is given back after the body");
}
