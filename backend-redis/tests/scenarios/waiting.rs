//! Waiting, and what it leaves behind.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{LockBackend, LockClient, LockOptions, WaitPolicy};
use distlock_testbed::rounds;

use crate::support::{Server, eventually, number, request, run, take, tests};

const LONG: Duration = Duration::from_secs(60);

tests! {
    b055_waits_leave_no_subscription,
    b060_wake_ups_don_t_pile_up,
}

async fn b055_waits_leave_no_subscription() {
    let seed = std::env::var("TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    eprintln!("TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let server = Server::start(&[]).await;
    let backend = Arc::new(server.backend().await);
    let client = LockClient::new(Arc::clone(&backend) as Arc<dyn LockBackend>);
    // Within one client they would wait for each other, and not for the store.
    let holder = LockClient::new(Arc::new(server.backend().await));
    let mut raw = server.raw().await;
    let mut heard = false;
    for round in 0..rounds(50) {
        let guard = holder.lock("k").await.unwrap();
        let waits: Vec<_> = (0..20)
            .map(|_| {
                let client = client.clone();
                let most = Duration::from_millis(random.u64(1..40));
                tokio::spawn(async move {
                    let options = LockOptions::default().wait(WaitPolicy::UpTo(most));
                    client.lock_with("k", &options).await.map(drop)
                })
            })
            .collect();
        for wait in waits {
            if random.bool() {
                wait.abort();
            }
            let _ = wait.await;
        }
        guard.unlock().await.unwrap();
        let lanes: Vec<_> = (0..16).map(|lane| format!("distlock:released:{lane}")).collect();
        let listening = run(&mut raw, &format!("PUBSUB NUMSUB {}", lanes.join(" "))).await;
        let listening: HashMap<String, u64> = redis::from_redis_value(listening).unwrap();
        let count: u64 = listening.values().sum();
        assert!(count <= 1, "round {round}: one client listens once, not {count} times");
        heard |= count == 1;
    }
    assert!(heard, "some of them waited for long enough to listen");
    backend.close().await.unwrap();
    eventually("nobody listens", async || {
        run(&mut raw, "PUBSUB CHANNELS *").await == redis::Value::Array(Vec::new())
    })
    .await;
}

async fn b060_wake_ups_don_t_pile_up() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    for _ in 0..3000 {
        let lease = take(&backend, &request("k", LONG)).await;
        backend.unlock(&lease.claim).await.unwrap();
    }
    assert_eq!(number(&mut raw, "DBSIZE").await, 1, "the lock's own record and nothing beside it");
    // A waiter spins on nothing of that.
    let holder = take(&backend, &request("k", LONG)).await;
    let waiting = Arc::new(server.backend().await);
    let client = LockClient::new(Arc::clone(&waiting) as Arc<dyn LockBackend>);
    let waiter = tokio::spawn(async move { client.lock("k").await.unwrap().unlock().await });
    eventually("somebody waits", async || number(&mut raw, "HEXISTS distlock:lock:k mark").await == 1).await;
    let before = waiting.commands_sent().unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let sent = waiting.commands_sent().unwrap() - before;
    assert!(sent <= 30, "{sent} commands in three seconds of waiting");
    backend.unlock(&holder.claim).await.unwrap();
    tokio::time::timeout(LONG, waiter).await.unwrap().unwrap().unwrap();
    assert_eq!(number(&mut raw, "DBSIZE").await, 1);
}
