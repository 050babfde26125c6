//! Events say what happened to which lock, in order, once, and cost those who lock nothing.

use distlock_core::{
    Events, LockBackend, LockChange, LockClient, LockEvent, LockOptions, LostReason, MemoryBackend,
    Operation, RenewPolicy,
};
use std::sync::Arc;

use crate::rig::{ms, nine, rig, secs, settle};

/// Those that are there already, with the numbers of missed ones apart.
async fn read(events: &mut Events) -> (Vec<LockEvent>, u64) {
    let (mut seen, mut missed) = (Vec::new(), 0);
    settle().await;
    loop {
        let next = tokio::select! {
            biased;
            next = events.next() => next,
            () = tokio::task::yield_now() => return (seen, missed),
        };
        match next {
            Some(Ok(event)) => seen.push(event),
            Some(Err(gap)) => missed += gap.count,
            None => return (seen, missed),
        }
    }
}

async fn changes(events: &mut Events) -> Vec<LockChange> {
    let (seen, missed) = read(events).await;
    assert_eq!(missed, 0);
    seen.into_iter().map(|event| event.change).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_from_grant_to_release() {
    let (_, _, client) = rig();
    client.lock("before").await.unwrap().unlock().await.unwrap();
    let (mut events, mut others) = (client.events(), client.clone().events());
    let granted_at = client.clock().now();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    tokio::time::sleep(secs(4)).await;
    let (owner, token, valid_until) = (guard.owner(), guard.token(), guard.valid_until());
    guard.unlock().await.unwrap();
    let (seen, missed) = read(&mut events).await;
    assert_eq!(missed, 0);
    assert!(
        seen.iter()
            .all(|event| (event.key.to_string(), event.owner, event.token) == ("k".into(), owner, token))
    );
    let changes: Vec<_> = seen.iter().map(|event| event.change).collect();
    assert_eq!(changes, [LockChange::Granted, LockChange::Renewed { valid_until }, LockChange::Released]);
    assert_eq!(seen[0].at.since(granted_at), ms(0));
    assert_eq!(seen[2].at.since(granted_at), secs(4));
    assert_eq!(read(&mut others).await.0, seen, "everybody gets all");
}

#[tokio::test(start_paused = true)]
async fn trouble_is_told_as_jeopardy_and_then_as_loss_once() {
    let (store, _, client) = rig();
    let mut events = client.events();
    let guard = client.lock_with("k", &nine()).await.unwrap();
    let valid_until = guard.valid_until();
    store.faults().silence(true);
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    let lost_at = client.clock().now();
    drop(guard);
    let (seen, _) = read(&mut events).await;
    let changes: Vec<_> = seen.iter().map(|event| event.change).collect();
    let lost = LockChange::Lost(LostReason::Unreachable);
    assert_eq!(changes, [LockChange::Granted, LockChange::Jeopardy { valid_until }, lost]);
    assert!(valid_until.since(seen[1].at) >= secs(4), "in time to prepare for it");
    assert!(lost_at.since(seen[2].at) <= ms(1));
}

#[tokio::test(start_paused = true)]
async fn every_end_has_its_event() {
    let (store, _, client) = rig();
    let mut events = client.events();
    drop(client.lock_with("k", &nine()).await.unwrap());
    assert_eq!(changes(&mut events).await, [LockChange::Granted, LockChange::Released]);
    let lease = client.lock_with("leased", &nine()).await.unwrap().into_lease();
    assert_eq!(changes(&mut events).await, [LockChange::Granted, LockChange::Detached]);
    let adopted = client.adopt(lease).await.unwrap();
    assert_eq!(changes(&mut events).await, [LockChange::Granted]);
    LockBackend::admin(&*store).unwrap().force_unlock(adopted.key()).await.unwrap();
    adopted.renew().await.unwrap_err();
    let lost = changes(&mut events).await;
    assert!(matches!(lost[..], [LockChange::Lost(LostReason::Expired | LostReason::Stolen)]), "{lost:?}");
    let kept = client.lock_with("kept", &nine()).await.unwrap();
    assert!(client.shutdown(secs(1)).await.is_empty());
    drop(kept);
    let lost = LockChange::Lost(LostReason::Shutdown);
    assert_eq!(changes(&mut events).await, [LockChange::Granted, lost]);
}

#[tokio::test(start_paused = true)]
async fn an_unrenewed_lock_is_in_jeopardy_by_time_alone() {
    let (_, spy, client) = rig();
    let mut events = client.events();
    let guard = client.lock_with("k", &nine().renew(RenewPolicy::Manual)).await.unwrap();
    let valid_until = guard.valid_until();
    tokio::time::sleep(secs(5)).await;
    assert_eq!(changes(&mut events).await, [LockChange::Granted, LockChange::Jeopardy { valid_until }]);
    guard.renew().await.unwrap();
    let valid_until = guard.valid_until();
    assert_eq!(changes(&mut events).await, [LockChange::Renewed { valid_until }]);
    assert_eq!(spy.count(Operation::Renew), 1);
}

#[tokio::test]
async fn a_slow_reader_misses_the_oldest_and_is_told_how_many() {
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let mut events = client.events();
    for _ in 0..1000 {
        client.lock_with("k", &LockOptions::default()).await.unwrap().unlock().await.unwrap();
    }
    let (seen, missed) = read(&mut events).await;
    assert_eq!((seen.len(), missed), (1024, 976));
    let last = seen.last().unwrap();
    assert_eq!(last.change, LockChange::Released);
    drop(client.lock("k").await.unwrap());
    assert_eq!(changes(&mut events).await, [LockChange::Granted, LockChange::Released], "it catches up");
}

#[tokio::test]
async fn the_stream_ends_with_the_client() {
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let mut events = client.events();
    let guard = client.lock("k").await.unwrap();
    drop(client);
    assert_eq!(events.next().await.unwrap().unwrap().change, LockChange::Granted);
    drop(guard);
    assert_eq!(events.next().await.unwrap().unwrap().change, LockChange::Released);
    assert!(events.next().await.is_none());
}
