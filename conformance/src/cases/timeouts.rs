//! Callers give up when they said they would, and say why.

use distlock_core::{Deadline, ErrorKind, LockOptions, Operation, WaitPolicy};

use super::*;
use crate::decorators::Fault;

cases! { "timeouts":
    a_backend_gives_up_at_its_deadline,
    no_patience_is_one_attempt [Adopt],
    patience_is_kept,
    b044_giving_up_says_who_holds_the_lock,
    giving_up_leaves_nothing_behind,
    b045_ttl_and_patience_are_two_things,
    b014_validity_counts_from_the_last_attempt,
    trouble_is_ridden_out,
    trouble_that_lasts_is_reported,
    what_no_retry_can_cure_ends_the_wait,
}

const AMPLE: Duration = Duration::from_secs(20);

fn patient(ctx: &Context, patience: Duration) -> LockOptions {
    LockOptions::default().ttl(ctx.long()).wait(WaitPolicy::UpTo(patience))
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

async fn b044_giving_up_says_who_holds_the_lock(ctx: &Context) {
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

async fn b045_ttl_and_patience_are_two_things(ctx: &Context) {
    let (client, other) = (ctx.client().await, ctx.client().await);
    let holder = other.lock_with(ctx.key("key"), &renewable(ctx)).await.unwrap();
    let options = LockOptions::default().ttl(ctx.brief()).wait(WaitPolicy::UpTo(AMPLE));
    let key = ctx.key("key");
    let waiter = tokio::spawn(async move { client.lock_with(key, &options).await.map(|guard| guard.ttl()) });
    goes_on_waiting(&waiter, ctx.brief() * 4, "a wait may be longer than the ttl").await;
    holder.unlock().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap(), ctx.brief());
}

async fn b014_validity_counts_from_the_last_attempt(ctx: &Context) {
    let (client, other) = (ctx.client().await, ctx.client().await);
    let holder = other.lock_with(ctx.key("key"), &renewable(ctx)).await.unwrap();
    let options = renewable(ctx).wait(WaitPolicy::UpTo(ctx.paced(AMPLE)));
    let waiter = {
        let (client, key) = (client.clone(), ctx.key("key"));
        tokio::spawn(async move { client.lock_with(key, &options).await })
    };
    goes_on_waiting(&waiter, ctx.renewable() * 5, "the lock is held").await;
    let released = ctx.clock().now();
    holder.unlock().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    let after = ctx.clock().now();
    let ttl = ctx.renewable();
    assert!(guard.valid_until() > released.plus(ttl / 2), "the wait was taken off the validity");
    assert!(guard.valid_until() <= after.plus(ttl), "the validity is longer than the ttl");
    guard.unlock().await.unwrap();
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
