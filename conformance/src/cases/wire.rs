//! Requests and answers that the network loses, delays and doubles, with the store's own bytes.

use distlock_core::{
    Effect, Error, ErrorKind, Lease, LockBackend, LockOptions, LostReason, Operation, Release, Renewal,
    TryLock,
};
use tokio::task::JoinHandle;

use super::*;

cases! { "wire":
    a_grant_whose_answer_was_lost_is_the_same_grant @alone [LoseAnswer],
    clients_put_lost_answers_right @alone [LoseAnswer],
    an_answer_that_comes_too_late_is_nobody_else_s @alone [SlowAnswers],
    a_grant_slower_than_its_ttl_is_given_back @alone [SlowAnswers],
    a_late_attempt_is_withdrawn @alone [HoldRequests, Aside],
    a_late_renewal_brings_nothing_back @alone [HoldRequests, Aside],
    a_late_release_leaves_the_successor_alone @alone [HoldRequests, Aside],
    doubled_requests_leave_the_successor_alone @alone [HoldRequests, Duplicate, Aside],
}

/// How long a request is under way before its sender gives up.
const HELD: Duration = Duration::from_millis(200);

async fn a_grant_whose_answer_was_lost_is_the_same_grant(ctx: &Context) {
    let (backend, rival) = (ctx.exposed().await, ctx.backend().await);
    for n in 0..5 {
        let request = ctx.request(format!("key {n}"));
        ctx.faults().lose_answer(Operation::TryLock).await;
        let first = match backend.try_lock(&request).await {
            Ok(TryLock::Acquired(lease)) => Some(lease.token),
            Ok(TryLock::Busy(_)) => panic!("an attempt was busy because of its own record"),
            Err(error) => {
                assert_eq!(error.effect(), Effect::Unknown, "it may well have happened: {error}");
                None
            }
        };
        ctx.faults().heal().await;
        // What the store says, if it shows.
        let shown = match rival.admin() {
            Some(admin) => admin.inspect(&request.claim.key).await.unwrap(),
            None => None,
        };
        let shown = shown.and_then(|record| record.holders.first().map(|holder| holder.token));
        let again = take_again(&*backend, &request).await;
        for before in [first, shown].into_iter().flatten() {
            assert_eq!(again.token, before, "a repeat of an attempt is the same grant");
        }
        assert_eq!(
            take(&*backend, &request).await.token,
            again.token,
            "a repeat of an attempt is the same grant"
        );
        assert_eq!(backend.unlock(&request.claim).await.unwrap(), Release::Released);
    }
}

async fn clients_put_lost_answers_right(ctx: &Context) {
    let (client, rival) = (ctx.exposed_client().await, ctx.backend().await);
    let options = LockOptions::default().ttl(ctx.long());
    for _ in 0..3 {
        ctx.faults().lose_answer(Operation::TryLock).await;
        // With a ttl of a minute, only asking again with the same claim is this fast.
        let limit = Duration::from_secs(10) + ctx.delay();
        let lock = client.lock_with(ctx.key("key"), &options);
        let guard =
            tokio::time::timeout(limit, lock).await.expect("its own record does not block it").unwrap();
        let guard = ctx.track(guard);
        refused(&*rival, &ctx.request("key")).await;
        ctx.faults().lose_answer(Operation::Renew).await;
        if let Err(error) = guard.guard().renew().await {
            assert_ne!(error.kind(), ErrorKind::Lost, "not known is not lost");
        }
        assert!(guard.is_valid());
        ctx.faults().lose_answer(Operation::Unlock).await;
        match guard.unlock().await {
            Ok(release) => assert_eq!(release, Release::Released, "it was held, and is not held any more"),
            Err(error) => assert_eq!(error.effect(), Effect::Unknown),
        }
        ctx.faults().heal().await;
        let request = ctx.request("key");
        take_within(&*rival, &request, Duration::from_secs(10) + ctx.delay()).await;
        rival.unlock(&request.claim).await.unwrap();
    }
}

async fn an_answer_that_comes_too_late_is_nobody_else_s(ctx: &Context) {
    let (backend, rival) = (ctx.exposed().await, ctx.backend().await);
    take(&*rival, &ctx.request("held")).await;
    for n in 0..3 {
        // Busy, in an answer that arrives while the next call waits for its own.
        ctx.faults().slow_answers(HELD * 2).await;
        let (by, request) = (Arc::clone(&backend), ctx.request("held"));
        given_up(async move { by.try_lock(&request).await }).await;
        ctx.faults().heal().await;
        let request = ctx.request(format!("free {n}"));
        let lease = take_again(&*backend, &request).await;
        // The same with an answer that says released.
        ctx.faults().slow_answers(HELD * 2).await;
        let (by, of) = (Arc::clone(&backend), lease.claim.clone());
        given_up(async move { by.unlock(&of).await }).await;
        ctx.faults().heal().await;
        let busy = until("an answer", Duration::from_secs(20), || async {
            backend.try_lock(&ctx.request("held")).await.ok()
        });
        assert!(matches!(busy.await, TryLock::Busy(_)), "it got the answer to another call");
    }
}

async fn a_grant_slower_than_its_ttl_is_given_back(ctx: &Context) {
    let (client, backend) = (ctx.exposed_client().await, ctx.exposed().await);
    let ttl = ctx.info().guarantees.effective_ttl(Duration::from_millis(200)).unwrap();
    ctx.faults().slow_answers(ttl * 3 / 2).await;
    let mut request = ctx.request("other key");
    request.ttl = ttl;
    let options = LockOptions::default().ttl(ttl);
    let (tried, raw) = tokio::join!(client.try_lock_with(ctx.key("key"), &options), async {
        tokio::time::timeout(Duration::from_secs(10), backend.try_lock(&request)).await
    });
    let error = tried.expect_err("nothing was left of its validity");
    assert!(matches!(error.kind(), ErrorKind::TooSlow | ErrorKind::Unavailable), "{error}");
    if let Ok(Ok(TryLock::Acquired(lease))) = raw {
        assert!(lease.valid_until < ctx.clock().now(), "a grant that came after its ttl says it is valid");
    }
    ctx.faults().heal().await;
    take_within(&*ctx.backend().await, &ctx.request("key"), ttl + ctx.lateness()).await;
}

/// Sends a request into a network that holds it, and gives up on it, unless the backend does so earlier.
async fn given_up<T: Send + 'static>(call: impl Future<Output = Result<T, Error>> + Send + 'static) {
    let sent: JoinHandle<_> = tokio::spawn(async move { tokio::time::timeout(HELD, call).await });
    let answered = matches!(sent.await.unwrap(), Ok(Ok(_)));
    assert!(!answered, "the request was answered, so the network did not hold it");
}

async fn a_late_attempt_is_withdrawn(ctx: &Context) {
    let (client, rival) = (ctx.exposed_client().await, ctx.backend().await);
    ctx.faults().hold_requests().await;
    let options = LockOptions::default().ttl(ctx.long());
    let key = ctx.key("key");
    let by = client.clone();
    given_up(async move { by.lock_with(key, &options).await }).await;
    ctx.faults().heal().await;
    // The attempt lands now, and perhaps after its own withdrawal.
    take_within(&*rival, &ctx.request("key"), Duration::from_secs(15) + ctx.delay()).await;
}

/// Holds the lock on a connection that is struck, and gives up on the call that `call` makes of it;
/// then the lease ends, and another owner has the lock when the network delivers.
async fn late(ctx: &Context, operation: Operation) -> (Arc<dyn LockBackend>, Lease) {
    let (backend, rival) = (ctx.exposed().await, ctx.backend().await);
    let lease = take(&*backend, &ctx.brief_request("key")).await;
    ctx.faults().hold_requests().await;
    let (by, of) = (Arc::clone(&backend), lease.clone());
    given_up(async move {
        if operation == Operation::Renew {
            by.renew(&of, of.ttl).await.map(drop)
        } else {
            by.unlock(&of.claim).await.map(drop)
        }
    })
    .await;
    let request = ctx.request("key");
    let next = take_within(&*rival, &request, lease.ttl + ctx.lateness()).await;
    assert!(next.token > lease.token);
    ctx.faults().heal().await;
    unharmed(ctx, &*rival, &next).await;
    let renewal =
        until("an answer", Duration::from_secs(20), || async { backend.renew(&lease, lease.ttl).await.ok() })
            .await;
    assert_eq!(renewal, Renewal::Lost(LostReason::Stolen));
    (rival, next)
}

/// Asserts that the holder stays undisturbed by what lands in the meantime.
async fn unharmed(ctx: &Context, backend: &dyn LockBackend, lease: &Lease) {
    for _ in 0..10 {
        refused(backend, &ctx.request("key")).await;
        if let Some(admin) = backend.admin() {
            let record = admin.inspect(&lease.claim.key).await.unwrap().unwrap();
            assert_eq!(record.holders[0].token, lease.token);
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

async fn a_late_renewal_brings_nothing_back(ctx: &Context) {
    let (rival, next) = late(ctx, Operation::Renew).await;
    assert_eq!(rival.unlock(&next.claim).await.unwrap(), Release::Released);
    take(&*rival, &ctx.request("key")).await;
}

async fn a_late_release_leaves_the_successor_alone(ctx: &Context) {
    let (rival, next) = late(ctx, Operation::Unlock).await;
    assert_eq!(rival.unlock(&next.claim).await.unwrap(), Release::Released);
}

async fn doubled_requests_leave_the_successor_alone(ctx: &Context) {
    for operation in [Operation::Renew, Operation::Unlock] {
        let (rival, next) = late(ctx, operation).await;
        ctx.faults().duplicate().await;
        unharmed(ctx, &*rival, &next).await;
        assert_eq!(rival.unlock(&next.claim).await.unwrap(), Release::Released);
        ctx.faults().duplicate().await;
        let request = ctx.request("key");
        take(&*rival, &request).await;
        rival.unlock(&request.claim).await.unwrap();
    }
}
