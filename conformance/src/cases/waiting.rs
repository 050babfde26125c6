//! Waiters get the lock when it is free, give up when they said they would, and miss nothing.

use distlock_core::{Claim, Deadline, ErrorKind, LockOptions, LockRequest, Operation, Queueing, WaitPolicy};

use super::*;
use crate::decorators::Fault;

cases! { "waiting":
    a_waiter_gets_the_lock_on_release,
    a_backend_waits_by_itself,
    a_backend_gives_up_at_its_deadline,
    no_patience_is_one_attempt,
    patience_is_kept,
    giving_up_says_who_holds_the_lock,
    giving_up_leaves_nothing_behind,
    ttl_and_patience_are_two_things,
    validity_counts_from_the_last_attempt,
    losing_a_race_is_not_giving_up,
    every_waiter_is_served,
    a_holder_that_runs_out_is_succeeded,
    mute_hints_cost_only_time,
    failing_hints_cost_only_time,
    hints_for_nothing_grant_nothing,
    a_release_between_answer_and_watch_is_not_missed [Push],
    a_dropped_watch_leaves_nothing_behind,
    a_fresh_client_misses_no_release,
    trouble_is_ridden_out,
    trouble_that_lasts_is_reported,
    what_no_retry_can_cure_ends_the_wait,
    outside_the_queue_works_too,
    strictly_in_the_queue_works_too [Queue],
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

async fn a_backend_gives_up_at_its_deadline(ctx: &Context) {
    let backend = ctx.backend().await;
    take(&*backend, &ctx.request("key")).await;
    let request = ctx.request("key").queue(ctx.info().supports.queue);
    let patience = Duration::from_millis(300);
    let before = ctx.clock().now();
    let error = backend.lock(&request, Deadline::after(&ctx.clock(), patience)).await.unwrap_err();
    let waited = ctx.clock().now().since(before);
    assert_eq!(error.kind(), ErrorKind::WaitTimeout);
    assert!(waited >= patience, "gave up after {waited:?}, and was to wait {patience:?}");
    backend.unlock(&request.claim).await.unwrap();
}

async fn no_patience_is_one_attempt(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let holder = ctx.request("key");
    take(&*ctx.backend().await, &holder).await;
    for wait in [WaitPolicy::No, WaitPolicy::UpTo(Duration::ZERO)] {
        let before = script.calls(Operation::TryLock);
        let options = LockOptions::default().wait(wait);
        let error = client.lock_with(ctx.key("key"), &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WaitTimeout);
        assert_eq!(script.calls(Operation::TryLock), before + 1, "no patience means one attempt");
    }
    ctx.backend().await.unlock(&holder.claim).await.unwrap();
    let options = LockOptions::default().wait(WaitPolicy::No);
    client.lock_with(ctx.key("key"), &options).await.unwrap().unlock().await.unwrap();
}

async fn patience_is_kept(ctx: &Context) {
    let client = ctx.client().await;
    take(&*ctx.backend().await, &ctx.request("key")).await;
    for millis in [1, 50, 400, 900] {
        let patience = Duration::from_millis(millis);
        let before = ctx.clock().now();
        let result = ctx.wait_for(&client, "key", &patient(ctx, patience)).await;
        let waited = ctx.clock().now().since(before);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::WaitTimeout);
        assert!(waited >= patience, "gave up after {waited:?}, and was to wait {patience:?}");
        // That it is not much longer is a check of the history.
    }
}

async fn giving_up_says_who_holds_the_lock(ctx: &Context) {
    let (one, two) = (ctx.client().await, ctx.client().await);
    let holder = one.lock(ctx.key("key")).await.unwrap();
    let error = two.lock_with(ctx.key("key"), &patient(ctx, Duration::from_millis(100))).await.unwrap_err();
    assert!(error.is_wait_timeout() && error.is_retryable());
    assert_eq!(error.key(), Some(holder.key()));
    assert_eq!(error.backend(), Some(ctx.info().name));
    if let Some(seen) = error.busy().and_then(|busy| busy.holder.as_ref()) {
        assert_eq!((seen.owner, seen.token), (holder.owner(), holder.token()));
        assert!(error.to_string().contains(&holder.token().to_string()), "{error}");
    }
    holder.unlock().await.unwrap();
}

async fn giving_up_leaves_nothing_behind(ctx: &Context) {
    let client = ctx.client().await;
    let backend = ctx.backend().await;
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    for _ in 0..3 {
        client.lock_with(ctx.key("key"), &patient(ctx, Duration::from_millis(50))).await.unwrap_err();
    }
    backend.unlock(&holder.claim).await.unwrap();
    let next = ctx.request("key");
    take_within(&*backend, &next, Duration::from_secs(3) + ctx.delay()).await;
    if let Some(admin) = backend.admin() {
        let waiters = admin.inspect(&next.claim.key).await.unwrap().unwrap().waiters;
        assert_eq!(waiters.unwrap_or(0), 0, "who gave up waits no more");
    }
}

async fn ttl_and_patience_are_two_things(ctx: &Context) {
    let (client, backend) = (ctx.client().await, ctx.backend().await);
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let options = LockOptions::default().ttl(ctx.brief()).wait(WaitPolicy::UpTo(AMPLE));
    let key = ctx.key("key");
    let waiter = tokio::spawn(async move { client.lock_with(key, &options).await.map(|guard| guard.ttl()) });
    tokio::time::sleep(ctx.brief() * 2).await;
    assert!(!waiter.is_finished(), "a wait may be longer than the ttl");
    backend.unlock(&holder.claim).await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap(), ctx.brief());
}

async fn validity_counts_from_the_last_attempt(ctx: &Context) {
    let (client, backend) = (ctx.client().await, ctx.backend().await);
    let holder = ctx.request("key");
    take(&*backend, &holder).await;
    let options = LockOptions::default().ttl(ctx.renewable()).wait(WaitPolicy::UpTo(AMPLE));
    let waiter = {
        let (client, key) = (client.clone(), ctx.key("key"));
        tokio::spawn(async move { client.lock_with(key, &options).await })
    };
    tokio::time::sleep(ctx.renewable() * 3 / 2).await;
    let released = ctx.clock().now();
    backend.unlock(&holder.claim).await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    let after = ctx.clock().now();
    let ttl = ctx.renewable();
    assert!(guard.valid_until() > released.plus(ttl / 2), "the wait was taken off the validity");
    assert!(guard.valid_until() <= after.plus(ttl), "the validity is longer than the ttl");
    guard.unlock().await.unwrap();
}

async fn losing_a_race_is_not_giving_up(ctx: &Context) {
    let holder = ctx.client().await.lock(ctx.key("key")).await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..8 {
        let (client, key, options) = (ctx.client().await, ctx.key("key"), patient(ctx, AMPLE));
        waiters.push(tokio::spawn(async move {
            let guard = client.lock_with(key, &options).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
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

async fn a_fresh_client_misses_no_release(ctx: &Context) {
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

async fn trouble_is_ridden_out(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    for fault in
        [Fault::Refused(ErrorKind::Unavailable), Fault::Refused(ErrorKind::Overloaded), Fault::AnswerLost]
    {
        script.once(Operation::TryLock, fault);
        script.once(Operation::TryLock, fault);
        let guard = client.lock_with(ctx.key("key"), &patient(ctx, AMPLE)).await.unwrap();
        guard.unlock().await.unwrap();
    }
}

async fn trouble_that_lasts_is_reported(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    script.always(Operation::TryLock, Fault::Refused(ErrorKind::Unavailable));
    let result = ctx.wait_for(&client, "key", &patient(ctx, Duration::from_millis(400))).await;
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "trouble with the store is not a busy lock: {error}");
}

async fn what_no_retry_can_cure_ends_the_wait(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    for kind in [ErrorKind::PermissionDenied, ErrorKind::Misconfigured, ErrorKind::Corrupt] {
        let before = script.calls(Operation::TryLock);
        script.once(Operation::TryLock, Fault::Refused(kind));
        let error = client.lock(ctx.key("key")).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(script.calls(Operation::TryLock), before + 1, "{kind:?} was tried again");
    }
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
