//! Clients and runtimes end; locks don't stay behind.

use distlock_core::{ErrorKind, LockClient, LockOptions, LockState, LostReason, Operation};

use super::*;
use crate::decorators::Fault;

cases! { "shutdown":
    dropped_guards_are_released_first,
    live_guards_are_told,
    waiters_are_told,
    nothing_new_is_taken_on,
    shutting_down_twice_is_fine,
    a_silent_store_does_not_hold_it_up,
    a_runtime_may_end_under_live_guards [ManyHeld],
    a_guard_outlives_its_runtime,
    a_client_works_in_a_second_runtime,
    a_loss_is_announced_in_a_second_runtime,
    b134_the_last_client_may_go_inside_a_task,
}

fn options(ctx: &Context) -> LockOptions {
    LockOptions::default().ttl(ctx.long())
}

/// Shuts a client down that shares its store's connection with nobody.
async fn shut_down(client: &LockClient) -> distlock_core::Unreleased {
    client.shutdown(Duration::from_secs(10)).await
}

async fn dropped_guards_are_released_first(ctx: &Context) {
    let client = ctx.client().await;
    for n in 0..20 {
        drop(client.lock_with(ctx.key(format!("key {n}")), &options(ctx)).await.unwrap());
    }
    let left = shut_down(&client).await;
    assert!(left.is_empty(), "{left:?}");
    let backend = ctx.backend().await;
    for n in 0..20 {
        take(&*backend, &ctx.request(format!("key {n}"))).await;
    }
}

async fn live_guards_are_told(ctx: &Context) {
    let client = ctx.client().await;
    let guard = ctx.track(client.lock_with(ctx.key("key"), &options(ctx)).await.unwrap());
    let left = shut_down(&client).await;
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(guard.state(), LockState::Lost(LostReason::Shutdown));
    assert!(!guard.is_valid());
    take(&*ctx.backend().await, &ctx.request("key")).await;
}

async fn waiters_are_told(ctx: &Context) {
    let client = ctx.client().await;
    take(&*ctx.backend().await, &ctx.request("key")).await;
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (client, key) = (client.clone(), ctx.key("key"));
            tokio::spawn(async move { client.lock(key).await.map(|_| ()) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    shut_down(&client).await;
    for waiter in waiters {
        let limit = Duration::from_secs(10);
        let result = tokio::time::timeout(limit, waiter).await.expect("a wait ends with its client").unwrap();
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Shutdown);
    }
}

async fn nothing_new_is_taken_on(ctx: &Context) {
    let client = ctx.client().await;
    shut_down(&client).await;
    assert_eq!(client.try_lock(ctx.key("key")).await.unwrap_err().kind(), ErrorKind::Shutdown);
    let error = client.clone().lock(ctx.key("key")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shutdown);
    take(&*ctx.backend().await, &ctx.request("key")).await;
}

async fn shutting_down_twice_is_fine(ctx: &Context) {
    let client = ctx.client().await;
    drop(client.lock_with(ctx.key("key"), &options(ctx)).await.unwrap());
    let (one, two) = tokio::join!(shut_down(&client), shut_down(&client));
    assert!(one.is_empty() && two.is_empty());
    assert!(shut_down(&client).await.is_empty());
}

async fn a_silent_store_does_not_hold_it_up(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    let guard = client.lock_with(ctx.key("key"), &options(ctx)).await.unwrap();
    let owner = guard.owner();
    script.everything(Fault::Silence);
    drop(guard);
    let limit = Duration::from_millis(500);
    let before = ctx.clock().now();
    let left = client.shutdown(limit).await;
    let took = ctx.clock().now().since(before);
    assert!(took < limit + Duration::from_secs(2) + ctx.delay(), "it took {took:?} instead of {limit:?}");
    let owners: Vec<_> = left.claims.iter().map(|claim| claim.owner).collect();
    assert_eq!(owners, [owner], "what could not be released is named");
}

/// Runs `work` in a runtime of its own, which ends after it, and returns what it gave.
async fn in_runtime<T, F>(work: impl FnOnce() -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let out = runtime.block_on(work());
        runtime.shutdown_timeout(Duration::from_secs(5));
        out
    });
    tokio::task::spawn_blocking(move || thread.join())
        .await
        .unwrap()
        .expect("the runtime's thread does not panic")
}

async fn a_runtime_may_end_under_live_guards(ctx: &Context) {
    let backend = ctx.backend().await;
    let options = LockOptions::default().ttl(ctx.brief());
    let keys: Vec<_> = (0..50).map(|n| ctx.key(format!("key {n}"))).collect();
    let wanted = keys.clone();
    in_runtime(move || async move {
        let client = LockClient::new(backend);
        for key in keys {
            let guard = client.lock_with(&key, &options).await.unwrap();
            // It lives in a task that the runtime drops when it ends.
            tokio::spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
        }
        tokio::task::yield_now().await;
    })
    .await;
    let rival = ctx.backend().await;
    for key in wanted {
        let request = distlock_core::LockRequest::new(distlock_core::Claim::mint(key), ctx.long());
        take_within(&*rival, &request, ctx.brief() + ctx.lateness()).await;
    }
}

async fn a_guard_outlives_its_runtime(ctx: &Context) {
    let (backend, key) = (ctx.backend().await, ctx.key("key"));
    let options = LockOptions::default().ttl(ctx.brief());
    let guard =
        in_runtime(move || async move { LockClient::new(backend).lock_with(key, &options).await.unwrap() })
            .await;
    // Nobody renews it any more, so it runs out, and says so although nobody announces it.
    until("the guard to be lost", ctx.brief() + ctx.lateness(), || async {
        (!guard.is_valid()).then_some(())
    })
    .await;
    let thread = std::thread::spawn(move || drop(guard));
    tokio::task::spawn_blocking(move || thread.join()).await.unwrap().expect("dropping a guard never panics");
    take_within(&*ctx.backend().await, &ctx.request("key"), ctx.lateness()).await;
}

async fn a_client_works_in_a_second_runtime(ctx: &Context) {
    let client = ctx.client().await;
    let first = client.lock_with(ctx.key("first"), &options(ctx)).await.unwrap();
    let (clone, key, options) =
        (client.clone(), ctx.key("second"), LockOptions::default().ttl(ctx.renewable()));
    let ttl = ctx.renewable();
    let kept = in_runtime(move || async move {
        let guard = clone.lock_with(&key, &options).await.unwrap();
        tokio::time::sleep(ttl * 3 / 2).await;
        let kept = guard.is_valid();
        guard.unlock().await.unwrap();
        kept
    })
    .await;
    if !kept {
        assert!(ctx.delay() > ttl / 6, "a lock taken in a second runtime was not renewed");
        return ctx.note_stall();
    }
    assert!(first.is_valid(), "the first runtime's lock is renewed still");
    first.unlock().await.unwrap();
    client.lock(ctx.key("second")).await.unwrap().unlock().await.unwrap();
}

async fn a_loss_is_announced_in_a_second_runtime(ctx: &Context) {
    let (backend, script) = ctx.interposed().await;
    let key = ctx.key("key");
    let options = LockOptions::default().ttl(ctx.brief());
    // The client's own runtime is gone, so nothing of it is left to announce anything.
    let guard =
        in_runtime(move || async move { LockClient::new(backend).lock_with(key, &options).await.unwrap() })
            .await;
    script.always(Operation::Renew, Fault::Silence);
    let limit = ctx.brief() + ctx.lateness();
    tokio::time::timeout(limit, guard.lost()).await.expect("a loss is announced to whoever waits for it");
}

async fn b134_the_last_client_may_go_inside_a_task(ctx: &Context) {
    let backend = ctx.backend().await;
    let (key, options) = (ctx.key("key"), options(ctx));
    let task = tokio::spawn(async move {
        let client = LockClient::new(backend);
        drop(client.lock_with(key, &options).await.unwrap());
        drop(client);
    });
    task.await.expect("dropping the last client never panics");
    take_within(&*ctx.backend().await, &ctx.request("key"), Duration::from_secs(3) + ctx.delay()).await;
}
