//! When an answer is lost nobody knows what happened, and says so; and then it is put right.

use distlock_core::{Effect, ErrorKind, LockOptions, Operation, Release, Renewal, TryLock};

use super::*;
use crate::decorators::Fault;

cases! { "ambiguity":
    a_grant_whose_answer_was_lost_can_be_asked_for_again,
    a_release_whose_answer_was_lost_can_be_asked_for_again,
    a_renewal_whose_answer_was_lost_can_be_asked_for_again,
    a_waiting_client_is_not_busy_by_itself,
    a_try_with_a_lost_answer_says_unknown_and_leaves_nothing,
    a_silent_store_is_unavailable_and_not_busy,
    a_guard_releases_although_answers_are_lost,
    a_guard_that_can_t_release_says_so,
    a_failed_release_is_made_good,
    doubled_requests_change_nothing,
    late_doubles_leave_the_successor_alone,
    a_late_grant_is_given_back,
    trouble_is_never_busy @alone [Outage],
    an_answer_lost_by_the_store_is_never_busy @alone [LoseAnswer],
}

async fn a_grant_whose_answer_was_lost_can_be_asked_for_again(ctx: &Context) {
    let (backend, script) = ctx.interposed().await;
    let request = ctx.request("key");
    script.once(Operation::TryLock, Fault::AnswerLost);
    let error = backend.try_lock(&request).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    refused(&*ctx.backend().await, &ctx.request("key")).await;
    let lease = take(&*backend, &request).await;
    assert_eq!(take(&*backend, &request).await.token, lease.token);
    backend.unlock(&request.claim).await.unwrap();
    let next = take(&*backend, &ctx.request("key")).await;
    assert!(next.token > lease.token);
}

async fn a_release_whose_answer_was_lost_can_be_asked_for_again(ctx: &Context) {
    let (backend, script) = ctx.interposed().await;
    let request = ctx.request("key");
    take(&*backend, &request).await;
    script.once(Operation::Unlock, Fault::AnswerLost);
    backend.unlock(&request.claim).await.unwrap_err();
    let rival = ctx.request("key");
    let lease = take(&*backend, &rival).await;
    assert!(matches!(backend.unlock(&request.claim).await.unwrap(), Release::NotHeld(_)));
    assert_eq!(take(&*backend, &rival).await.token, lease.token, "the repeat leaves the successor alone");
}

async fn a_renewal_whose_answer_was_lost_can_be_asked_for_again(ctx: &Context) {
    let (backend, script) = ctx.interposed().await;
    let lease = take(&*backend, &ctx.request("key")).await;
    script.once(Operation::Renew, Fault::AnswerLost);
    backend.renew(&lease, lease.ttl).await.unwrap_err();
    assert!(matches!(backend.renew(&lease, lease.ttl).await.unwrap(), Renewal::Renewed { .. }));
}

async fn a_waiting_client_is_not_busy_by_itself(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let options = LockOptions::default().ttl(ctx.long());
    for _ in 0..3 {
        script.once(Operation::TryLock, Fault::AnswerLost);
        // With a ttl of a minute, only asking again with the same claim is this fast.
        let limit = Duration::from_secs(5) + ctx.delay();
        let lock = client.lock_with(ctx.key("key"), &options);
        let guard =
            tokio::time::timeout(limit, lock).await.expect("its own record does not block it").unwrap();
        assert_eq!(guard.unlock().await.unwrap(), Release::Released);
    }
}

async fn a_try_with_a_lost_answer_says_unknown_and_leaves_nothing(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    script.once(Operation::TryLock, Fault::AnswerLost);
    let error = client.try_lock(ctx.key("key")).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    assert!(error.is_retryable());
    take_within(&*ctx.backend().await, &ctx.request("key"), Duration::from_secs(3) + ctx.delay()).await;
}

async fn a_silent_store_is_unavailable_and_not_busy(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    script.everything(Fault::Silence);
    let options = LockOptions::default().ttl(ctx.renewable());
    let limit = ctx.renewable() + ctx.lateness();
    let error = tokio::time::timeout(limit, client.try_lock_with(ctx.key("key"), &options))
        .await
        .expect("no call outlasts its own time limit")
        .unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
}

async fn a_guard_releases_although_answers_are_lost(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let options = LockOptions::default().ttl(ctx.long());
    let guard = client.lock_with(ctx.key("key"), &options).await.unwrap();
    script.once(Operation::Unlock, Fault::AnswerLost);
    match guard.unlock().await {
        Ok(release) => assert_eq!(release, Release::Released, "it was held, and is not held any more"),
        Err(error) => assert_eq!(error.effect(), Effect::Unknown),
    }
    take_within(&*ctx.backend().await, &ctx.request("key"), Duration::from_secs(3) + ctx.delay()).await;
}

async fn a_guard_that_can_t_release_says_so(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let options = LockOptions::default().ttl(ctx.renewable());
    let guard = client.lock_with(ctx.key("key"), &options).await.unwrap();
    script.everything(Fault::Silence);
    let limit = ctx.renewable() + ctx.lateness();
    let result =
        tokio::time::timeout(limit, guard.unlock()).await.expect("no call outlasts its own time limit");
    let error = result.expect_err("a release that nobody acknowledged is no success");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

async fn a_failed_release_is_made_good(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let options = LockOptions::default().ttl(ctx.long());
    let guard = client.lock_with(ctx.key("key"), &options).await.unwrap();
    script.always(Operation::Unlock, Fault::Refused(ErrorKind::Unavailable));
    guard.unlock().await.unwrap_err();
    script.heal();
    take_within(&*ctx.backend().await, &ctx.request("key"), Duration::from_secs(4) + ctx.delay()).await;
}

async fn doubled_requests_change_nothing(ctx: &Context) {
    let (backend, script) = ctx.interposed().await;
    script.everything(Fault::SentTwice(Duration::ZERO));
    for _ in 0..5 {
        let request = ctx.request("key");
        let lease = take(&*backend, &request).await;
        let renewal = backend.renew(&lease, lease.ttl).await.unwrap();
        assert!(matches!(renewal, Renewal::Renewed { .. }));
        // They are over before the release: what the store does with later ones is for other cases.
        until("the doubles' answers", Duration::from_secs(10), async || {
            (script.doubles() == 0).then_some(())
        })
        .await;
        assert_eq!(backend.unlock(&request.claim).await.unwrap(), Release::Released);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    script.heal();
    take_within(&*backend, &ctx.request("key"), Duration::from_secs(2) + ctx.delay()).await;
}

async fn late_doubles_leave_the_successor_alone(ctx: &Context) {
    let (backend, script) = ctx.interposed().await;
    let old = take(&*backend, &ctx.request("key")).await;
    for operation in [Operation::Renew, Operation::Unlock] {
        script.once(operation, Fault::SentTwice(Duration::from_millis(150)));
    }
    backend.renew(&old, old.ttl).await.unwrap();
    backend.unlock(&old.claim).await.unwrap();
    let request = ctx.request("key");
    let new = take(&*backend, &request).await;
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        refused(&*backend, &ctx.request("key")).await;
        if let Some(admin) = backend.admin() {
            admin.inspect(&request.claim.key).await.unwrap();
        }
    }
    assert_eq!(take(&*backend, &request).await.token, new.token);
}

async fn a_late_grant_is_given_back(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let ttl = ctx.info().guarantees.effective_ttl(Duration::from_millis(200)).unwrap();
    script.always(Operation::TryLock, Fault::AnsweredLate(ttl * 2));
    let options = LockOptions::default().ttl(ttl);
    let error = client.try_lock_with(ctx.key("key"), &options).await.unwrap_err();
    // Cut off by the time limit of the call, or noticed when it came: never handed out.
    assert!(matches!(error.kind(), ErrorKind::TooSlow | ErrorKind::Unavailable), "{error}");
    script.heal();
    take_within(&*ctx.backend().await, &ctx.request("key"), Duration::from_secs(3) + ctx.delay()).await;
}

async fn trouble_is_never_busy(ctx: &Context) {
    let backend = ctx.exposed().await;
    let lease = take(&*backend, &ctx.request("held")).await;
    let free = ctx.request("free");
    let limit = Duration::from_secs(3);
    ctx.faults().outage().await;
    let (tried, renewed, unlocked) = tokio::join!(
        tokio::time::timeout(limit, backend.try_lock(&free)),
        tokio::time::timeout(limit, backend.renew(&lease, lease.ttl)),
        tokio::time::timeout(limit, backend.unlock(&lease.claim)),
    );
    ctx.faults().heal().await;
    // No answer at all is bounded by the client.
    assert!(!matches!(tried, Ok(Ok(_))), "an outage shows as {tried:?}");
    assert!(!matches!(renewed, Ok(Ok(_))), "an outage shows as {renewed:?}");
    assert!(!matches!(unlocked, Ok(Ok(_))), "an outage shows as {unlocked:?}");
    if let Ok(Err(error)) = tried {
        assert!(error.is_retryable(), "an outage passes: {error}");
    }
    let limit = Duration::from_secs(20);
    until("the store to serve again", limit, || async {
        matches!(backend.try_lock(&free).await, Ok(TryLock::Acquired(_))).then_some(())
    })
    .await;
}

async fn an_answer_lost_by_the_store_is_never_busy(ctx: &Context) {
    let backend = ctx.exposed().await;
    let request = ctx.request("key");
    ctx.faults().lose_answer(Operation::TryLock).await;
    match backend.try_lock(&request).await {
        Ok(TryLock::Acquired(_)) => {}
        Ok(TryLock::Busy(_)) => panic!("an attempt was busy because of its own record"),
        Err(error) => assert_eq!(error.effect(), Effect::Unknown, "it may well have happened: {error}"),
    }
    let lease = take_again(&*backend, &request).await;
    ctx.faults().lose_answer(Operation::Renew).await;
    match backend.renew(&lease, lease.ttl).await {
        Ok(Renewal::Renewed { .. }) => {}
        Ok(Renewal::Lost(reason)) => panic!("not known is not lost: {reason}"),
        Err(error) => assert_eq!(error.effect(), Effect::Unknown),
    }
    // So that the connection that the next answer is lost on is there.
    take_again(&*backend, &request).await;
    ctx.faults().lose_answer(Operation::Unlock).await;
    match backend.unlock(&request.claim).await {
        Ok(release) => assert_eq!(release, Release::Released),
        Err(error) => assert_eq!(error.effect(), Effect::Unknown),
    }
    ctx.faults().heal().await;
    until("the store to serve again", Duration::from_secs(20), || async {
        backend.unlock(&request.claim).await.ok()
    })
    .await;
    take(&*backend, &ctx.request("key")).await;
}
