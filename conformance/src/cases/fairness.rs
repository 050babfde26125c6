//! Nobody is passed for ever, and nobody blocks others after leaving.

use std::sync::atomic::{AtomicUsize, Ordering};

use distlock_core::{LockOptions, LockRequest, Queueing, Release, TryLock, WaitPolicy};

use super::*;

cases! { "fairness":
    waiters_are_served_in_order [Fifo, Queue],
    asking_again_keeps_the_place [Fifo, Queue],
    who_gives_up_is_skipped [Fifo, Queue],
    expiry_serves_the_head_of_the_queue [Fifo, Queue],
    a_forced_release_serves_the_head_of_the_queue [Fifo, Queue, Admin],
    a_plain_try_never_passes_a_waiter [Queue],
    a_plain_try_never_passes_a_waiter_of_its_client,
    a_plain_try_leaves_nothing_behind,
    a_silent_waiter_blocks_nobody_for_long [Queue],
    waiters_keep_their_place_while_they_ask [Queue],
    a_place_is_kept_for_its_ttl [Queue, KeepsPlaces],
    a_fast_relocker_lets_others_in,
    a_fast_relocker_lets_other_clients_in,
    a_herd_with_quitters_is_served @alone,
    strict_order_holds_across_clients [Fifo, Queue],
}

async fn queue_up(ctx: &Context, backend: &dyn distlock_core::LockBackend, count: usize) -> Vec<LockRequest> {
    let mut waiters = Vec::new();
    for _ in 0..count {
        let waiter = ctx.request("key").queue(true);
        refused(backend, &waiter).await;
        waiters.push(waiter);
    }
    waiters
}

/// Asserts that of all waiters only the first gets the lock.
async fn assert_head(backend: &dyn distlock_core::LockBackend, waiters: &[LockRequest]) {
    for waiter in waiters[1..].iter().rev() {
        refused(backend, waiter).await;
    }
    take(backend, &waiters[0]).await;
}

async fn waiters_are_served_in_order(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let holder = ctx.request("key");
    take(&*one, &holder).await;
    let waiters = queue_up(ctx, &*two, 8).await;
    one.unlock(&holder.claim).await.unwrap();
    for at in 0..waiters.len() {
        assert_head(&*two, &waiters[at..]).await;
        assert_eq!(one.unlock(&waiters[at].claim).await.unwrap(), Release::Released);
    }
}

async fn asking_again_keeps_the_place(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let waiters = queue_up(ctx, &*backend, 4).await;
    for waiter in &waiters {
        for _ in 0..3 {
            refused(&*backend, waiter).await;
        }
    }
    backend.unlock(&holder.claim).await.unwrap();
    assert_head(&*backend, &waiters).await;
}

async fn who_gives_up_is_skipped(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let waiters = queue_up(ctx, &*backend, 6).await;
    for gone in [0, 1, 3] {
        backend.unlock(&waiters[gone].claim).await.unwrap();
    }
    backend.unlock(&holder.claim).await.unwrap();
    for at in [2, 4, 5] {
        take(&*backend, &waiters[at]).await;
        backend.unlock(&waiters[at].claim).await.unwrap();
    }
}

async fn expiry_serves_the_head_of_the_queue(ctx: &Context) {
    let backend = ctx.backend().await;
    let lease = take(&*backend, &ctx.brief_request("key")).await;
    let waiters = queue_up(ctx, &*backend, 3).await;
    take_within(&*backend, &waiters[0], lease.ttl + ctx.lateness()).await;
    refused(&*backend, &waiters[1]).await;
}

async fn a_forced_release_serves_the_head_of_the_queue(ctx: &Context) {
    let backend = ctx.backend().await;
    take(&*backend, &ctx.request("key")).await;
    let waiters = queue_up(ctx, &*backend, 3).await;
    backend.admin().unwrap().force_unlock(&ctx.key("key")).await.unwrap();
    refused(&*backend, &ctx.request("key")).await;
    assert_head(&*backend, &waiters).await;
}

async fn a_plain_try_never_passes_a_waiter(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let waiters = queue_up(ctx, &*backend, 1).await;
    backend.unlock(&holder.claim).await.unwrap();
    for _ in 0..5 {
        refused(&*ctx.backend().await, &ctx.request("key")).await;
    }
    take(&*backend, &waiters[0]).await;
}

async fn a_plain_try_never_passes_a_waiter_of_its_client(ctx: &Context) {
    let client = ctx.client().await;
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let waiter = {
        let (client, key) = (client.clone(), ctx.key("key"));
        tokio::spawn(async move { client.lock(key).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    backend.unlock(&holder.claim).await.unwrap();
    // Whether the waiter has asked again by now or not: the newcomer does not get in before it.
    let newcomer = client.try_lock(ctx.key("key")).await.unwrap();
    assert!(newcomer.is_none(), "a plain try passed a waiter");
    waiter.await.unwrap().unwrap().unlock().await.unwrap();
}

async fn a_plain_try_leaves_nothing_behind(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    for _ in 0..5 {
        refused(&*backend, &ctx.request("key")).await;
    }
    if let Some(admin) = backend.admin() {
        let record = admin.inspect(&holder.claim.key).await.unwrap().unwrap();
        assert_eq!(record.waiters.unwrap_or(0), 0, "a plain try does not wait");
    }
    backend.unlock(&holder.claim).await.unwrap();
    take(&*backend, &ctx.request("key")).await;
}

async fn a_silent_waiter_blocks_nobody_for_long(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    // It queues for a short lease and is never heard of again.
    refused(&*backend, &ctx.brief_request("key").queue(true)).await;
    backend.unlock(&holder.claim).await.unwrap();
    let limit = ctx.brief() + ctx.lateness() + Duration::from_secs(10);
    take_within(&*backend, &ctx.request("key").queue(true), limit).await;
}

async fn waiters_keep_their_place_while_they_ask(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let waiter = ctx.brief_request("key").queue(true);
    refused(&*backend, &waiter).await;
    for _ in 0..12 {
        tokio::time::sleep(ctx.brief() / 4).await;
        refused(&*backend, &waiter).await;
    }
    backend.unlock(&holder.claim).await.unwrap();
    match backend.try_lock(&ctx.request("key")).await.unwrap() {
        TryLock::Busy(_) => {}
        TryLock::Acquired(_) => assert!(ctx.delay() > ctx.brief() / 4, "a waiter that asks lost its place"),
    }
}

async fn a_place_is_kept_for_its_ttl(ctx: &Context) {
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let ttl = ctx.renewable();
    let waiter = LockRequest::new(ctx.claim("key"), ttl).queue(true);
    let asked = std::time::Instant::now();
    refused(&*backend, &waiter).await;
    tokio::time::sleep(ttl * 2 / 3).await;
    backend.unlock(&holder.claim).await.unwrap();
    let newcomer = backend.try_lock(&ctx.request("key")).await.unwrap();
    match newcomer {
        TryLock::Busy(_) => {}
        TryLock::Acquired(_) if asked.elapsed() >= ttl => return ctx.note_stall(),
        TryLock::Acquired(_) => panic!("a waiter lost its place that was to be kept for {ttl:?}"),
    }
    take(&*backend, &waiter).await;
}

/// Counts how often a re-locker gets the lock before a waiter does.
async fn rounds_until_served(
    ctx: &Context,
    relocker: &distlock_core::LockClient,
    waiter: &distlock_core::LockClient,
) {
    const MOST: usize = 400;
    let first = relocker.lock(ctx.key("key")).await.unwrap();
    let waiting = {
        let (waiter, key) = (waiter.clone(), ctx.key("key"));
        tokio::spawn(async move { waiter.lock(key).await?.unlock().await })
    };
    tokio::time::sleep(Duration::from_millis(150)).await;
    first.unlock().await.unwrap();
    let mut rounds = 0;
    while !waiting.is_finished() {
        let guard = relocker.lock(ctx.key("key")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        guard.unlock().await.unwrap();
        rounds += 1;
        assert!(rounds < MOST, "a fast re-locker got the lock {rounds} times before a waiter got it once");
    }
    waiting.await.unwrap().unwrap();
}

async fn a_fast_relocker_lets_others_in(ctx: &Context) {
    let client = ctx.client().await;
    rounds_until_served(ctx, &client, &client).await;
}

async fn a_fast_relocker_lets_other_clients_in(ctx: &Context) {
    rounds_until_served(ctx, &ctx.client().await, &ctx.client().await).await;
}

async fn a_herd_with_quitters_is_served(ctx: &Context) {
    const HERD: usize = 200;
    let mut rng = ctx.rng();
    let client = ctx.client().await;
    let holder = client.lock(ctx.key("key")).await.unwrap();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut waiters = Vec::new();
    for _ in 0..HERD {
        let (client, key, inside) = (client.clone(), ctx.key("key"), Arc::clone(&inside));
        let quits_after = rng.bool().then(|| Duration::from_millis(rng.u64(1..400)));
        waiters.push(tokio::spawn(async move {
            let granted = match quits_after {
                Some(after) => tokio::time::timeout(after, client.lock(key)).await.ok(),
                None => Some(client.lock(key).await),
            };
            let Some(guard) = granted else { return };
            let guard = guard.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock at once");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.unlock().await.unwrap();
        }));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    holder.unlock().await.unwrap();
    for waiter in waiters {
        tokio::time::timeout(Duration::from_secs(40), waiter)
            .await
            .expect("everybody who stays is served")
            .unwrap();
    }
    take_within(&*ctx.backend().await, &ctx.request("key"), Duration::from_secs(5)).await;
}

async fn strict_order_holds_across_clients(ctx: &Context) {
    // That nobody is passed is a check of the history: every waiter stands in the store's queue.
    let options = LockOptions::default()
        .ttl(ctx.long())
        .wait(WaitPolicy::UpTo(Duration::from_secs(30)))
        .queue(Queueing::Strict);
    let clients = [ctx.client().await, ctx.client().await, ctx.client().await];
    let mut waiters = Vec::new();
    for n in 0..30 {
        let (client, key, options) = (clients[n % 3].clone(), ctx.key("key"), options.clone());
        waiters.push(tokio::spawn(async move {
            let guard = client.lock_with(key, &options).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
            guard.unlock().await.unwrap();
        }));
    }
    for waiter in join_all(waiters).await {
        waiter.unwrap();
    }
}
