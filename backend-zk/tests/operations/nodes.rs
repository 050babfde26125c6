//! Nodes that vanish below the backend.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{FencingToken, LockBackend, LockKey, LostReason, Renewal};
use distlock_zk::zookeeper_client::Client;
use futures_util::future::join_all;

use crate::support::{backend, client, eventually, folder, raw, request, take, tests};

tests! {
    a_lock_s_node_may_go_between_its_making_and_a_place_s,
    a_folder_deleted_and_made_again_keeps_tokens_rising,
    a_deleted_place_is_noticed_at_once,
    a_raised_floor_counts_for_locks_of_all_programs,
}

const LONG: Duration = Duration::from_secs(5);

/// Deletes whatever is empty, over and over.
async fn reap(raw: &Client, folder: &str) {
    loop {
        for lock in raw.list_children(folder).await.unwrap_or_default() {
            let _ = raw.delete(&format!("{folder}/{lock}"), None).await;
        }
        let _ = raw.delete(folder, None).await;
        tokio::task::yield_now().await;
    }
}

async fn a_lock_s_node_may_go_between_its_making_and_a_place_s() {
    let folder = folder();
    let (backend, raw) = (backend(&folder).await, raw().await);
    let work = (0..4).map(|task| {
        let backend = Arc::clone(&backend);
        async move {
            for round in 0..40 {
                let request = request(&format!("k{task} {}", round % 3), LONG);
                let mut tries = 0;
                // A reaper that is quicker than any server's may win many times in a row.
                while let Err(error) = backend.try_lock(&request).await {
                    assert!(error.is_retryable(), "{error}");
                    tries += 1;
                    assert!(tries < 50, "{error}");
                }
                backend.unlock(&request.claim).await.unwrap();
            }
        }
    });
    tokio::select! {
        _ = join_all(work) => {}
        () = reap(&raw, &folder) => {}
    }
}

async fn a_folder_deleted_and_made_again_keeps_tokens_rising() {
    let folder = folder();
    let (backend, raw) = (backend(&folder).await, raw().await);
    let mut last: Option<FencingToken> = None;
    for _ in 0..5 {
        let held = request("k", LONG);
        let lease = take(&*backend, &held).await;
        assert!(Some(lease.token) > last, "{:?} after {last:?}", lease.token);
        last = Some(lease.token);
        backend.unlock(&held.claim).await.unwrap();
        for name in ["k", ".token-floor"] {
            let _ = raw.delete(&format!("{folder}/{name}"), None).await;
        }
        eventually("the folder is gone", async || {
            raw.delete(&folder, None).await.is_ok() || raw.check_stat(&folder).await.unwrap().is_none()
        })
        .await;
    }
}

async fn a_deleted_place_is_noticed_at_once() {
    let folder = folder();
    let (client, raw) = (client(&folder).await, raw().await);
    let guard = client.lock("k").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let lock = format!("{folder}/k");
    let name = raw.list_children(&lock).await.unwrap().remove(0);
    raw.delete(&format!("{lock}/{name}"), None).await.unwrap();
    let reason =
        tokio::time::timeout(Duration::from_secs(10), guard.lost()).await.expect("the loss is announced");
    assert_eq!(reason, LostReason::Expired);
    let held = request("other", LONG);
    let other = backend(&folder).await;
    let lease = take(&*other, &held).await;
    let name = raw.list_children(&format!("{folder}/other")).await.unwrap().remove(0);
    raw.delete(&format!("{folder}/other/{name}"), None).await.unwrap();
    take(&*backend(&folder).await, &request("other", LONG)).await;
    assert_eq!(other.renew(&lease, LONG).await.unwrap(), Renewal::Lost(LostReason::Stolen));
}

async fn a_raised_floor_counts_for_locks_of_all_programs() {
    let folder = folder();
    let (one, two) = (backend(&folder).await, backend(&folder).await);
    let before = take(&*one, &request("a", LONG)).await.token;
    let floor = FencingToken::new(before.get() + (1 << 40)).unwrap();
    one.admin().unwrap().raise_token_floor(floor).await.unwrap();
    let after = take(&*two, &request("b", LONG)).await.token;
    assert!(after > floor);
    let shown = |key: &'static str| {
        let one = Arc::clone(&one);
        async move {
            let record = one.admin().unwrap().inspect(&LockKey::new(key).unwrap()).await.unwrap().unwrap();
            record.holders[0].token
        }
    };
    assert_eq!((shown("a").await, shown("b").await), (before, after), "a hold keeps its token");
    let error = one.admin().unwrap().raise_token_floor(FencingToken::MAX).await.unwrap_err();
    assert_eq!(error.kind(), distlock_core::ErrorKind::InvalidOptions);
}
