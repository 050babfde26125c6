//! Rule 12: idle keys leave nothing behind, in store or client.

use std::sync::Arc;

use distlock_core::{LockBackend, LockClient, MemoryBackend, WaitPolicy};

use crate::rig::{ms, nine, rig, until};

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_idle_keys_cost_nothing() {
    let (store, _, client) = rig();
    for n in 0..100_000 {
        client.lock_with(format!("k{n}"), &nine()).await.unwrap().unlock().await.unwrap();
    }
    assert_eq!(store.records(), 0);
}

#[tokio::test(start_paused = true)]
async fn short_waits_leave_no_residue() {
    let (store, _, client) = rig();
    let other = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let held = client.lock_with("k", &nine()).await.unwrap();
    for _ in 0..1000 {
        let patience = nine().wait(WaitPolicy::UpTo(ms(fastrand::u64(0..3))));
        let _ = tokio::time::timeout(ms(fastrand::u64(0..3)), other.lock_with("k", &patience)).await;
    }
    until("all left the queue", || {
        futures_util::FutureExt::now_or_never(async {
            client.admin().unwrap().inspect(held.key()).await.unwrap().unwrap().waiters == Some(0)
        }) == Some(true)
    })
    .await;
    held.unlock().await.unwrap();
    until("nothing is left", || store.records() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_in_a_loop_leaves_nothing() {
    let store = Arc::new(MemoryBackend::new());
    let client = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let held = client.lock_with("k", &nine()).await.unwrap();
    for _ in 0..1000 {
        assert!(client.try_lock("k").await.unwrap().is_none());
    }
    held.unlock().await.unwrap();
    assert_eq!(store.records(), 0);
}
