//! Errors say what happened, to whom, and whether it may have happened all the same.

use distlock_core::{Effect, ErrorKind, LockOptions, Operation, WaitPolicy};

use super::*;
use crate::decorators::Fault;

cases! { "errors":
    a_busy_lock_is_no_error_of_the_store,
    they_name_backend_operation_and_key,
    kinds_pass_through_unchanged,
    no_effect_means_no_effect,
    undeclared_admin_is_unsupported [NoAdmin],
    undeclared_adopting_is_unsupported [NoAdopt],
    a_lost_lock_is_told_from_a_busy_one [Adopt],
    a_client_without_a_runtime_says_so,
}

async fn a_busy_lock_is_no_error_of_the_store(ctx: &Context) {
    let client = ctx.client().await;
    take(&*ctx.backend().await, &ctx.request("key")).await;
    assert!(client.try_lock(ctx.key("key")).await.unwrap().is_none());
    for wait in [WaitPolicy::No, WaitPolicy::UpTo(Duration::from_millis(50))] {
        let error = client.lock_with(ctx.key("key"), &LockOptions::default().wait(wait)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::WaitTimeout, Effect::None));
        assert!(error.is_wait_timeout() && error.is_retryable() && !error.is_lost());
    }
}

async fn they_name_backend_operation_and_key(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    script.once(Operation::TryLock, Fault::Refused(ErrorKind::PermissionDenied));
    let error = client.try_lock(ctx.key("key")).await.unwrap_err();
    assert_eq!(error.backend(), Some(ctx.info().name));
    assert_eq!(error.operation(), Some(Operation::TryLock));
    assert_eq!(error.key(), Some(&ctx.key("key")));
    let text = error.to_string();
    assert!(!text.contains('\n'), "an error is one line: {text}");
    assert!(text.contains(ctx.info().name) && text.contains("key"), "{text}");
}

async fn kinds_pass_through_unchanged(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    for kind in [
        ErrorKind::Unavailable,
        ErrorKind::Overloaded,
        ErrorKind::PermissionDenied,
        ErrorKind::Misconfigured,
        ErrorKind::Corrupt,
        ErrorKind::Unsupported,
        ErrorKind::Other,
    ] {
        script.once(Operation::TryLock, Fault::Refused(kind));
        let error = client.try_lock(ctx.key("key")).await.expect_err("trouble is never a busy lock");
        assert_eq!(error.kind(), kind);
        assert_eq!(error.is_retryable(), kind.is_retryable());
    }
    client.try_lock(ctx.key("key")).await.unwrap().expect("nothing stayed behind").unlock().await.unwrap();
}

async fn no_effect_means_no_effect(ctx: &Context) {
    let (client, script) = ctx.faulty_client().await;
    script.once(Operation::TryLock, Fault::Refused(ErrorKind::Unavailable));
    let error = client.try_lock(ctx.key("key")).await.unwrap_err();
    assert_eq!(error.effect(), Effect::None);
    // Nothing has to be swept, so nothing is sent.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(script.calls(Operation::Unlock), 0);
    take(&*ctx.backend().await, &ctx.request("key")).await;
}

async fn undeclared_admin_is_unsupported(ctx: &Context) {
    let client = ctx.client().await;
    assert_eq!(client.admin().expect_err("no admin is declared").kind(), ErrorKind::Unsupported);
}

async fn undeclared_adopting_is_unsupported(ctx: &Context) {
    let client = ctx.client().await;
    let lease = client.lock(ctx.key("key")).await.unwrap().into_lease();
    let error = client.adopt(lease).await.expect_err("no adopting is declared");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unsupported, Effect::None));
}

async fn a_lost_lock_is_told_from_a_busy_one(ctx: &Context) {
    let client = ctx.client().await;
    let guard = client.lock(ctx.key("key")).await.unwrap();
    let backend = ctx.backend().await;
    backend.unlock(&distlock_core::Claim::new(guard.key().clone(), guard.owner())).await.unwrap();
    take(&*backend, &ctx.request("key")).await;
    let error = guard.renew().await.unwrap_err();
    assert!(error.is_lost() && !error.is_wait_timeout());
    assert!(client.try_lock(ctx.key("key")).await.unwrap().is_none());
}

async fn a_client_without_a_runtime_says_so(ctx: &Context) {
    let (client, key) = (ctx.client().await, ctx.key("key"));
    let thread = std::thread::spawn(move || {
        // Polled by hand, as another executor would.
        let mut call = Box::pin(async move { client.try_lock(key).await.map(|guard| guard.is_some()) });
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        Future::poll(call.as_mut(), &mut context)
    });
    let polled = tokio::task::spawn_blocking(move || thread.join()).await.unwrap();
    match polled.expect("no runtime is no reason to panic") {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::Misconfigured),
        other => panic!("without a runtime nothing is renewed, yet it gave {other:?}"),
    }
}
