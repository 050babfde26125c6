//! Faults that were reported against other libraries, by their numbers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_core::{ErrorKind, LockBackend, LockClient, LockOptions, LostReason, Release, WaitPolicy};

use crate::rig::{LONG, Servers, patient, renewed, take};
use crate::support::{eventually, key, request, tests};

tests![
    b012_renewals_that_fail_end_no_program,
    b013_releasing_a_lost_lock_takes_no_time,
    b037_a_grant_that_comes_too_late_leaves_nothing,
    b038_one_server_that_fails_to_renew_releases_nothing,
    b040_one_slow_server_holds_up_no_call,
    b043_with_all_servers_down_acquiring_gives_up,
];

async fn b012_renewals_that_fail_end_no_program() {
    let mut servers = Servers::start(3).await;
    let client = LockClient::new(Arc::new(servers.backend_with(Default::default()).await));
    let options = LockOptions::default().ttl(Duration::from_secs(3));
    let guard = client.lock_with("key", &options).await.unwrap();
    for server in &mut servers.0 {
        server.kill();
    }
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    assert!(!guard.is_valid());
    for server in &mut servers.0 {
        server.start_again().await;
    }
    let again = client.lock_with("key", &options.wait(WaitPolicy::UpTo(Duration::from_secs(30)))).await;
    again.unwrap().unlock().await.unwrap();
}

async fn b013_releasing_a_lost_lock_takes_no_time() {
    let servers = Servers::start(3).await;
    let client = LockClient::new(Arc::new(servers.backend().await));
    let guard = client.lock_with("key", &LockOptions::default().ttl(Duration::from_secs(3))).await.unwrap();
    client.admin().unwrap().force_unlock(&key("key")).await.unwrap();
    guard.lost().await;
    for server in &servers.0 {
        server.pause();
    }
    let before = Instant::now();
    let release = guard.unlock().await.unwrap();
    assert!(matches!(release, Release::NotHeld(_)), "{release:?}");
    assert!(before.elapsed() < Duration::from_secs(2), "no server was waited for");
    for server in &servers.0 {
        server.resume();
    }
}

async fn b037_a_grant_that_comes_too_late_leaves_nothing() {
    let servers = Servers::start(5).await;
    let ttl = Duration::from_secs(60);
    let backend = servers.backend_with(patient().min_validity(ttl)).await;
    let error = backend.try_lock(&request("key", ttl)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooSlow, "{error}");
    eventually("nothing is left of it", async || !servers.held_at("key").await.contains(&true)).await;
}

async fn b038_one_server_that_fails_to_renew_releases_nothing() {
    let mut servers = Servers::start(5).await;
    let backend = servers.backend().await;
    let lease = take(&backend, &request("key", LONG)).await;
    eventually("all have it", async || !servers.held_at("key").await.contains(&false)).await;
    servers.0[0].kill();
    renewed(&backend, &lease).await;
    servers.0[0].start_again().await;
    assert_eq!(servers.held_at("key").await[1..], [true; 4]);
}

async fn b040_one_slow_server_holds_up_no_call() {
    let servers = Servers::start(5).await;
    let backend = servers.backend().await;
    take(&backend, &request("before", LONG)).await;
    servers.0[0].pause();
    let before = Instant::now();
    let lease = take(&backend, &request("key", LONG)).await;
    renewed(&backend, &lease).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    // The limit for one server is 3 s, and for all of this a busy machine has as much.
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    servers.0[0].resume();
    eventually("the slow one keeps nothing of it", async || !servers.held_at("key").await.contains(&true))
        .await;
}

async fn b043_with_all_servers_down_acquiring_gives_up() {
    let mut servers = Servers::start(3).await;
    let client = LockClient::new(Arc::new(servers.backend().await));
    for server in &mut servers.0 {
        server.kill();
    }
    let options = LockOptions::default().wait(WaitPolicy::UpTo(Duration::from_millis(500)));
    let limit = Duration::from_secs(20);
    let result = tokio::time::timeout(limit, client.lock_with("key", &options)).await.expect("it ends");
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Unavailable);
}
