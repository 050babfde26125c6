//! At most one claim holds a key.

use std::sync::atomic::{AtomicUsize, Ordering};

use distlock_core::{Claim, LockRequest, TryLock};

use super::*;

cases! { "exclusion":
    a_second_claim_is_busy,
    other_keys_stay_free,
    two_connections_exclude_each_other,
    two_claims_of_one_connection_exclude_each_other,
    a_repeat_gives_the_same_grant [Adopt],
    a_repeat_restarts_the_expiry,
    the_holder_is_not_busy_by_itself_under_contention,
    one_of_many_racing_claims_wins,
    the_lock_can_be_taken_again_and_again,
    attempts_from_many_connections_count_right @alone,
}

async fn a_second_claim_is_busy(ctx: &Context) {
    let backend = ctx.backend().await;
    let first = ctx.request("key");
    let lease = take(&*backend, &first).await;
    assert_eq!(lease.claim, first.claim, "a grant names its claim");
    let busy = refused(&*backend, &ctx.request("key")).await;
    if let Some(holder) = busy.holder {
        assert_eq!(holder.owner, first.claim.owner, "busy names the holder");
        assert_eq!(holder.token, lease.token, "busy names the holder's token");
    }
    if let Some(free_in) = busy.free_in {
        let most = lease.ttl + ctx.lateness();
        assert!(free_in <= most, "busy says free in {free_in:?}, and the ttl is {:?}", lease.ttl);
    }
}

async fn other_keys_stay_free(ctx: &Context) {
    let backend = ctx.backend().await;
    take(&*backend, &ctx.request("held")).await;
    for other in ["other", "held/", "hel", "Held", "held2"] {
        take(&*backend, &ctx.request(other)).await;
    }
}

async fn two_connections_exclude_each_other(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let first = ctx.request("key");
    take(&*one, &first).await;
    let second = ctx.request("key");
    refused(&*two, &second).await;
    one.unlock(&first.claim).await.unwrap();
    take(&*two, &second).await;
    refused(&*one, &ctx.request("key")).await;
}

async fn two_claims_of_one_connection_exclude_each_other(ctx: &Context) {
    let backend = ctx.backend().await;
    let requests: Vec<_> = (0..8).map(|_| ctx.request("key")).collect();
    take(&*backend, &requests[0]).await;
    for request in &requests[1..] {
        refused(&*backend, request).await;
    }
    // The owner is the claim, not the task: the same from another task.
    let (other, request) = (Arc::clone(&backend), requests[1].clone());
    tokio::spawn(async move { refused(&*other, &request).await }).await.unwrap();
}

async fn a_repeat_gives_the_same_grant(ctx: &Context) {
    let (one, two) = (ctx.backend().await, ctx.backend().await);
    let request = ctx.request("key");
    let lease = take(&*one, &request).await;
    // Where a lease belongs to its connection, another one can't vouch for it.
    let second = if ctx.info().supports.adopt { &two } else { &one };
    for backend in [&one, second, &one] {
        let again = take(&**backend, &request).await;
        assert_eq!(again.token, lease.token, "a repeat of the attempt gives the same token");
        assert!(again.valid_until >= lease.valid_until, "a repeat never shortens the validity");
    }
}

async fn a_repeat_restarts_the_expiry(ctx: &Context) {
    let backend = ctx.backend().await;
    let request = ctx.brief_request("key");
    let lease = take(&*backend, &request).await;
    let mut valid_until = lease.valid_until;
    // Well past the first lease's end, the lock is still held if every repeat restarts its expiry.
    for _ in 0..6 {
        tokio::time::sleep(lease.ttl / 3).await;
        let before = ctx.clock().now();
        let Ok(TryLock::Acquired(again)) = backend.try_lock(&request).await else {
            panic!("a claim is not busy because of itself");
        };
        if again.token != lease.token {
            // This machine or the store slept so long that the lease ran out in between; that is a new grant.
            assert!(ctx.clock().now() > valid_until, "a repeat in time gives the same token");
            return;
        }
        valid_until = again.valid_until;
        let least = before.plus(lease.ttl / 2);
        assert!(again.valid_until > least, "a repeat restarts the expiry");
    }
    match backend.try_lock(&ctx.request("key")).await {
        Ok(TryLock::Busy(_)) => {}
        other => assert!(ctx.clock().now() > valid_until, "the lock is held, yet an attempt gave {other:?}"),
    }
}

async fn the_holder_is_not_busy_by_itself_under_contention(ctx: &Context) {
    let (holder, rival) = (ctx.backend().await, ctx.backend().await);
    let request = ctx.request("key");
    let lease = take(&*holder, &request).await;
    for queue in [false, true] {
        refused(&*rival, &ctx.request("key").queue(queue)).await;
        let again = take(&*holder, &request.clone().queue(queue)).await;
        assert_eq!(again.token, lease.token, "waiters don't take the lock from its holder");
    }
}

async fn one_of_many_racing_claims_wins(ctx: &Context) {
    let backends = [ctx.backend().await, ctx.backend().await, ctx.backend().await];
    for round in 0..10 {
        let name = format!("key {round}");
        let attempts = (0..24).map(|n| {
            let (backend, request) = (Arc::clone(&backends[n % 3]), ctx.request(&name));
            tokio::spawn(async move { backend.try_lock(&request).await })
        });
        let mut winners = 0;
        for attempt in join_all(attempts).await {
            match attempt.unwrap().expect("contention is not an error") {
                TryLock::Acquired(_) => winners += 1,
                TryLock::Busy(_) => {}
            }
        }
        assert_eq!(winners, 1, "of claims that race for a free lock one wins");
    }
}

async fn the_lock_can_be_taken_again_and_again(ctx: &Context) {
    let backend = ctx.backend().await;
    for _ in 0..20 {
        let request = ctx.request("key");
        take(&*backend, &request).await;
        backend.unlock(&request.claim).await.unwrap();
    }
}

async fn attempts_from_many_connections_count_right(ctx: &Context) {
    const TASKS: usize = 8;
    const ROUNDS: usize = 12;
    let inside = Arc::new(AtomicUsize::new(0));
    let counter = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let backend = ctx.backend().await;
        let (inside, counter, key) = (Arc::clone(&inside), Arc::clone(&counter), ctx.key("key"));
        let (ttl, limit) = (ctx.long(), Duration::from_secs(40));
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let request = LockRequest::new(Claim::mint(key.clone()), ttl);
                take_within(&*backend, &request, limit).await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two claims hold the lock at once");
                let before = counter.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                counter.store(before + 1, Ordering::SeqCst);
                inside.fetch_sub(1, Ordering::SeqCst);
                backend.unlock(&request.claim).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), TASKS * ROUNDS, "an update was lost under the lock");
}
