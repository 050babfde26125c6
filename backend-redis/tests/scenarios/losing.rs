//! Renewal and the news of a loss.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{LockBackend, LockClient, LockGuard, LockOptions, LostReason, Release, RenewPolicy};
use distlock_redis::RedisBackend;
use distlock_testbed::rounds;

use crate::support::{Server, eventually, number, request, run, take, tests};

const LIMIT: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(3);

tests! {
    b001_a_lock_taken_after_a_silence_is_renewed,
    b002_a_lock_taken_after_its_record_was_deleted_is_renewed,
    b003_nothing_renews_a_released_lock,
    b017_a_holder_without_rights_steps_down,
    b018_each_loss_says_why,
}

/// Renewed so often that a test need not last.
fn options() -> LockOptions {
    LockOptions::default().ttl(TTL).renew(RenewPolicy::Every(Duration::from_millis(300)))
}

async fn client(server: &Server) -> LockClient {
    LockClient::new(Arc::new(server.backend().await))
}

async fn lost(guard: &LockGuard) -> LostReason {
    let reason = tokio::time::timeout(LIMIT, guard.lost()).await.expect("a loss is told");
    assert!(!guard.is_valid());
    reason
}

/// Sees a guard renewed so many times.
async fn renewed(guard: &LockGuard, times: usize) {
    for _ in 0..times {
        let before = guard.valid_until();
        eventually("the lock is renewed", async || {
            assert!(guard.is_valid(), "{:?}", guard.state());
            guard.valid_until() > before
        })
        .await;
    }
}

async fn b001_a_lock_taken_after_a_silence_is_renewed() {
    let server = Server::start(&[]).await;
    let client = client(&server).await;
    let guard = client.lock_with("k", &options()).await.unwrap();
    server.pause();
    assert_eq!(lost(&guard).await, LostReason::Unreachable);
    server.resume();
    let again = client.lock_with("k", &options()).await.unwrap();
    assert!(again.token() > guard.token());
    renewed(&again, 12).await;
    assert!(matches!(guard.unlock().await.unwrap(), Release::NotHeld(_)));
    assert_eq!(again.unlock().await.unwrap(), Release::Released);
}

async fn b002_a_lock_taken_after_its_record_was_deleted_is_renewed() {
    let server = Server::start(&[]).await;
    let client = client(&server).await;
    let guard = client.lock_with("k", &options()).await.unwrap();
    run(&mut server.raw().await, "DEL distlock:lock:k").await;
    assert_eq!(lost(&guard).await, LostReason::Expired);
    let again = client.lock_with("k", &options()).await.unwrap();
    assert!(again.token() > guard.token(), "although the token was deleted, too");
    renewed(&again, 12).await;
    assert_eq!(again.unlock().await.unwrap(), Release::Released);
}

async fn b003_nothing_renews_a_released_lock() {
    let server = Server::start(&[]).await;
    let client = client(&server).await;
    // A renewal is due about when the release is sent.
    let often = options().renew(RenewPolicy::Every(Duration::from_millis(1)));
    let tasks = (0..8).map(|n| {
        let (client, often) = (client.clone(), often.clone());
        tokio::spawn(async move {
            for _ in 0..rounds(250) {
                client.lock_with(format!("k{n}"), &often).await.unwrap().unlock().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let mut raw = server.raw().await;
    let mut scripts = async || {
        let stats: String = redis::from_redis_value(run(&mut raw, "INFO commandstats").await).unwrap();
        stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).map(str::to_owned)
    };
    let before = scripts().await;
    assert!(before.is_some());
    // A thousand times as long as a renewal would take to come.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scripts().await, before, "something still renews");
    assert_eq!(client.admin().unwrap().list(b"", None, 10).await.unwrap(), []);
}

async fn b017_a_holder_without_rights_steps_down() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    run(&mut raw, "ACL SETUSER locks on >pw ~* &* +@all").await;
    let backend = RedisBackend::connect(server.config().user("locks").password("pw")).await.unwrap();
    let guard = LockClient::new(Arc::new(backend)).lock_with("k", &options()).await.unwrap();
    run(&mut raw, "ACL SETUSER locks -@all +ping").await;
    assert_eq!(lost(&guard).await, LostReason::Denied);
    let rival = client(&server).await;
    let next = tokio::time::timeout(LIMIT, rival.lock("k")).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
}

async fn b018_each_loss_says_why() {
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let (holder, rival) = (client(&server).await, server.backend().await);
    let guard = holder.lock_with("expired", &options()).await.unwrap();
    run(&mut raw, "HSET distlock:lock:expired deadline 1").await;
    assert_eq!(lost(&guard).await, LostReason::Expired);

    let guard = holder.lock_with("stolen", &options()).await.unwrap();
    rival.admin().unwrap().force_unlock(guard.key()).await.unwrap();
    take(&rival, &request("stolen", LIMIT)).await;
    assert_eq!(lost(&guard).await, LostReason::Stolen);
    assert_eq!(number(&mut raw, "HEXISTS distlock:lock:stolen owner").await, 1, "the thief keeps it");

    let guard = holder.lock_with("shutdown", &options()).await.unwrap();
    holder.shutdown(LIMIT).await;
    assert_eq!(lost(&guard).await, LostReason::Shutdown);

    let holder = client(&server).await;
    let guard = holder.lock_with("unreachable", &options()).await.unwrap();
    drop(server);
    assert_eq!(lost(&guard).await, LostReason::Unreachable);
}
