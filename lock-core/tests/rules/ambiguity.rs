//! Rule 5: a lost answer is neither busy nor lost, and a claim never blocks itself.

use distlock_core::{Effect, ErrorKind, LostReason, Operation, Release};

use crate::rig::{kind, ms, nine, rig, secs, until, waiting_up_to};

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_the_acquire_gives_the_same_grant() {
    let (store, spy, client) = rig();
    store.faults().drop_reply(Operation::TryLock);
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let record = client.admin().unwrap().inspect(guard.key()).await.unwrap().unwrap();
    assert_eq!(record.holders[0].token, guard.token());
    let tries = spy.calls_of(Operation::TryLock);
    assert_eq!(tries.len(), 2);
    assert_eq!(tries[0].owners, tries[1].owners, "the same attempt was repeated");
    guard.unlock().await.unwrap();
    until("swept once more, since the first request may land late", || spy.count(Operation::Unlock) >= 2)
        .await;
    let unlocks = spy.calls_of(Operation::Unlock);
    assert!(unlocks[1].at.since(unlocks[0].at) >= ms(1500), "a whole operation time-out later");
}

#[tokio::test(start_paused = true)]
async fn trouble_is_never_busy() {
    let (store, _, client) = rig();
    for fault in
        [ErrorKind::Unavailable, ErrorKind::PermissionDenied, ErrorKind::Corrupt, ErrorKind::Misconfigured]
    {
        store.faults().fail(Operation::TryLock, fault);
        let error = client.try_lock_with("k", &nine()).await.unwrap_err();
        assert_eq!(error.kind(), fault);
        assert_eq!(error.backend(), Some("memory"));
        assert_eq!(error.key().unwrap().to_string(), "k");
        assert_eq!(error.operation(), Some(Operation::TryLock));
    }
    store.faults().hang(Operation::TryLock);
    let error = client.try_lock_with("k", &nine()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    until("an attempt of unknown effect is swept", || store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_waited_for_and_then_reported() {
    let (store, _, client) = rig();
    store.faults().silence(true);
    let start = tokio::time::Instant::now();
    assert_eq!(kind(client.lock_with("k", &waiting_up_to(secs(4))).await), ErrorKind::Unavailable);
    assert!(start.elapsed() >= secs(4) && start.elapsed() < secs(6), "{:?}", start.elapsed());
    let start = tokio::time::Instant::now();
    assert_eq!(kind(client.lock_with("k", &nine()).await), ErrorKind::Unavailable);
    assert!(
        start.elapsed() >= secs(9) && start.elapsed() < secs(15),
        "for ever means a ttl of silence: {:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_does_not_outlast_the_caller_s_patience_by_much() {
    let (store, _, client) = rig();
    store.faults().silence(true);
    let start = tokio::time::Instant::now();
    assert_eq!(kind(client.lock_with("k", &waiting_up_to(ms(50))).await), ErrorKind::Unavailable);
    assert!(start.elapsed() <= ms(300), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn those_in_line_behind_a_store_in_trouble_are_told_of_the_trouble() {
    let (store, _, client) = rig();
    store.faults().silence(true);
    let head = tokio::spawn({
        let client = client.clone();
        async move { client.lock_with("k", &nine()).await }
    });
    tokio::time::sleep(ms(1)).await;
    assert_eq!(kind(client.lock_with("k", &waiting_up_to(secs(4))).await), ErrorKind::Unavailable);
    assert_eq!(kind(client.try_lock_with("k", &nine()).await), ErrorKind::Unavailable);
    head.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_the_release_is_still_a_release() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.faults().drop_reply(Operation::Unlock);
    assert_eq!(guard.unlock().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_an_error_and_goes_on() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.faults().fail(Operation::Unlock, ErrorKind::Unavailable);
    store.faults().fail(Operation::Unlock, ErrorKind::Unavailable);
    assert_eq!(kind(guard.unlock().await), ErrorKind::Unavailable);
    until("the background task released it", || store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_says_expired_or_stolen() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.expire_now(guard.key());
    assert_eq!(guard.unlock().await.unwrap(), Release::NotHeld(LostReason::Expired));

    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.expire_now(guard.key());
    let thief = client.try_lock_with("k", &nine()).await.unwrap().unwrap();
    assert_eq!(guard.unlock().await.unwrap(), Release::NotHeld(LostReason::Stolen));
    assert_eq!(thief.unlock().await.unwrap(), Release::Released, "untouched");
}

#[tokio::test(start_paused = true)]
async fn a_known_loss_is_answered_at_once_even_if_the_store_is_silent() {
    let (store, _, client) = rig();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    store.faults().silence(true);
    guard.lost().await;
    let start = tokio::time::Instant::now();
    assert_eq!(guard.unlock().await.unwrap(), Release::NotHeld(LostReason::Unreachable));
    assert_eq!(start.elapsed(), secs(0));
}

#[tokio::test(start_paused = true)]
async fn a_body_s_own_result_is_never_hidden_by_a_failed_release() {
    let (store, _, client) = rig();
    let result: Result<(), &str> = client
        .with_lock_with("k", &nine(), |_| async {
            store.faults().silence(true);
            Err("the body's own error")
        })
        .await
        .unwrap();
    assert_eq!(result, Err("the body's own error"));
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_on_loss_and_never_started_without_the_lock() {
    let (store, _, client) = rig();
    let error = client
        .with_lock_with("k", &nine(), |guard| {
            store.expire_now(guard.key());
            std::future::pending::<()>()
        })
        .await
        .unwrap_err();
    assert!(error.is_lost(), "{error}");

    let _holder = client.lock_with("busy", &nine()).await.unwrap();
    let never = client.with_lock_with("busy", &waiting_up_to(secs(1)), |_| async { unreachable!() }).await;
    assert_eq!(kind::<()>(never), ErrorKind::WaitTimeout);
}
