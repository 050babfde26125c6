//! The small steps that cases are made of.

use std::future::Future;
use std::time::{Duration, Instant};

use distlock_core::{Busy, Lease, LockBackend, LockClient, LockOptions, LockRequest, LostReason, TryLock};
use tokio::task::JoinHandle;

use crate::context::Context;
use crate::tracked::Tracked;

/// Takes a free lock.
pub(crate) async fn take(backend: &dyn LockBackend, request: &LockRequest) -> Lease {
    match backend.try_lock(request).await {
        Ok(TryLock::Acquired(lease)) => lease,
        other => panic!("`{}` is free, yet an attempt gave {other:?}", request.claim.key),
    }
}

/// Asserts that an attempt is busy.
pub(crate) async fn refused(backend: &dyn LockBackend, request: &LockRequest) -> Busy {
    match backend.try_lock(request).await {
        Ok(TryLock::Busy(busy)) => busy,
        other => panic!("`{}` is held, yet an attempt gave {other:?}", request.claim.key),
    }
}

/// Repeats an attempt that must have been granted, until the connection is there again.
pub(crate) async fn take_again(backend: &dyn LockBackend, request: &LockRequest) -> Lease {
    until("an answer", Duration::from_secs(20), || async {
        match backend.try_lock(request).await {
            Ok(TryLock::Acquired(lease)) => Some(lease),
            Ok(TryLock::Busy(busy)) => panic!("an attempt was busy because of its own record: {busy:?}"),
            Err(error) => {
                assert!(error.is_retryable(), "a lost connection passes: {error}");
                None
            }
        }
    })
    .await
}

/// Tries over and over until the lock is granted, for at most `limit`.
pub(crate) async fn take_within(backend: &dyn LockBackend, request: &LockRequest, limit: Duration) -> Lease {
    until(&format!("`{}` to become free", request.claim.key), limit, || async {
        match backend.try_lock(request).await.expect("the store works") {
            TryLock::Acquired(lease) => Some(lease),
            TryLock::Busy(_) => None,
        }
    })
    .await
}

/// Looks every few milliseconds until there is something to see, for at most `limit`.
pub(crate) async fn until<T, F>(what: &str, limit: Duration, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let began = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(began.elapsed() < limit, "waited {limit:?} for {what} in vain");
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}

/// Asserts that a task goes on waiting for all of this time.
pub(crate) async fn goes_on_waiting<T>(task: &JoinHandle<T>, time: Duration, why: &str) {
    let began = Instant::now();
    while began.elapsed() < time {
        assert!(!task.is_finished(), "after {:?} it waits no more: {why}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}

/// Options with a ttl short enough to see several renewals.
pub(crate) fn renewable(ctx: &Context) -> LockOptions {
    LockOptions::default().ttl(ctx.renewable())
}

/// Takes the case's `key` with such options; what the guard says from then on is recorded.
pub(crate) async fn held(ctx: &Context, client: &LockClient) -> Tracked {
    ctx.track(client.lock_with(ctx.key("key"), &renewable(ctx)).await.unwrap())
}

/// Waits for the loss, which has to come by the end of the validity.
pub(crate) async fn lost(ctx: &Context, guard: &Tracked) -> LostReason {
    let limit = guard.guard().ttl() + ctx.lateness();
    tokio::time::timeout(limit, guard.guard().lost()).await.expect("the loss is announced by the deadline")
}

/// Asserts that a client works by itself again, soon after a fault was healed.
pub(crate) async fn works_again(ctx: &Context, client: &LockClient, name: &str) {
    let limit = ctx.renewable() * 2 + Duration::from_secs(5) + ctx.lateness();
    let guard = until("the client to work again", limit, || async {
        client.try_lock_with(ctx.key(name), &renewable(ctx)).await.ok().flatten()
    })
    .await;
    guard.unlock().await.expect("it works again");
}

/// Watches for the first grant of the case's `key` to a rival, and asserts that `ttl` had passed since `sent`.
pub(crate) async fn assert_not_early(
    ctx: &Context,
    rival: &dyn LockBackend,
    sent: distlock_core::Instant,
    ttl: Duration,
) {
    let request = ctx.request("key");
    take_within(rival, &request, ttl + ctx.lateness()).await;
    // The store counted from some time after the send, so less than the ttl is too early, whatever
    // the machine's delays. A thousandth is left to differing clocks.
    let passed = ctx.clock().now().since(sent);
    let least = ttl - ttl / 1000;
    assert!(passed >= least, "another claim was granted {passed:?} after a lease of {ttl:?} was asked for");
}
