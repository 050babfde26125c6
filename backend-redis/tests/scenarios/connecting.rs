//! Connections that break, and the limits of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock_core::{
    Clock, ErrorKind, LockBackend, LockClient, LockKey, LockOptions, Release, Renewal, WaitPolicy,
};
use distlock_redis::{RedisBackend, RedisConfig};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use crate::support::{Server, eventually, request, take, tests};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

tests! {
    b119_owners_are_known_in_either_protocol,
    b123_every_client_works_on_after_each_restart,
    b124_each_limit_of_time_holds_for_itself,
}

async fn b119_owners_are_known_in_either_protocol() {
    let server = Server::start(&[]).await;
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis+unix://{}?protocol={protocol}", server.socket().display());
        let client = redis::Client::open(url).unwrap();
        let settings = ConnectionManagerConfig::new().set_number_of_retries(1);
        let manager = ConnectionManager::new_with_config(client.clone(), settings).await.unwrap();
        let backend =
            RedisBackend::from_connection_manager(manager, &client, RedisConfig::default()).await.unwrap();
        let key = LockKey::new([0xff, 0x80, 0, b'k']).unwrap();
        let wish = distlock_core::LockRequest::new(distlock_core::Claim::mint(key.clone()), LONG);
        let lease = take(&backend, &wish).await;
        assert_eq!(take(&backend, &wish).await.token, lease.token, "{protocol}: it knows itself");
        assert!(matches!(backend.renew(&lease, LONG).await.unwrap(), Renewal::Renewed { .. }), "{protocol}");
        let admin = backend.admin().unwrap();
        assert_eq!(admin.inspect(&key).await.unwrap().unwrap().holders[0].owner, lease.claim.owner);
        assert_eq!(admin.list(b"\xff", None, 10).await.unwrap().len(), 1, "{protocol}");
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released, "{protocol}");
        assert!(backend.probe().await.unwrap().version.is_some(), "{protocol}");
    }
}

async fn b123_every_client_works_on_after_each_restart() {
    let mut server = Server::start(&[]).await;
    let done: Arc<Vec<AtomicU64>> = Arc::new((0..6).map(|_| AtomicU64::new(0)).collect());
    let mut tasks = Vec::new();
    for n in 0..done.len() {
        let client = LockClient::new(Arc::new(server.backend().await));
        let done = Arc::clone(&done);
        tasks.push(tokio::spawn(async move {
            let options = LockOptions::default().ttl(Duration::from_secs(3)).wait(WaitPolicy::UpTo(SHORT));
            loop {
                // A pair of clients for each key.
                match client.lock_with(format!("k{}", n / 2), &options).await {
                    Ok(guard) => {
                        drop(guard.unlock().await);
                        done[n].fetch_add(1, Ordering::AcqRel);
                    }
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
        }));
    }
    for _ in 0..3 {
        let before: Vec<_> = done.iter().map(|count| count.load(Ordering::Acquire)).collect();
        eventually("every client gets on", async || {
            assert!(!tasks.iter().any(tokio::task::JoinHandle::is_finished), "a client gave up");
            done.iter().zip(&before).all(|(count, before)| count.load(Ordering::Acquire) > before + 3)
        })
        .await;
        server.kill();
        server.start_again().await;
    }
    let before: Vec<_> = done.iter().map(|count| count.load(Ordering::Acquire)).collect();
    eventually("every client got on after the last restart", async || {
        assert!(!tasks.iter().any(tokio::task::JoinHandle::is_finished), "a client gave up");
        done.iter().zip(&before).all(|(count, before)| count.load(Ordering::Acquire) > before + 3)
    })
    .await;
    for task in tasks {
        task.abort();
    }
}

async fn b124_each_limit_of_time_holds_for_itself() {
    // Accepts, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let clock = Clock::system();
    let begun = clock.now();
    let config = RedisConfig::new(&address).connect_timeout(SHORT).response_timeout(LONG);
    let error = RedisBackend::connect(config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let took = clock.now().since(begun);
    assert!(took >= SHORT && took < LONG / 2, "{took:?}: connecting has its own limit");

    let server = Server::start(&[]).await;
    let config = server.config().connect_timeout(LONG).response_timeout(SHORT);
    let backend = RedisBackend::connect(config).await.unwrap();
    let lease = take(&backend, &request("k", LONG)).await;
    server.pause();
    let begun = clock.now();
    let error = backend.renew(&lease, LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let took = clock.now().since(begun);
    assert!(took >= SHORT && took < LONG / 2, "{took:?}: a reply has its own limit");
    server.resume();
    eventually("it answers again", async || backend.renew(&lease, LONG).await.is_ok()).await;
}
