//! Servers that are down, frozen, or the same.

use std::time::{Duration, Instant};

use distlock_core::{Effect, ErrorKind, LockBackend, Release, Renewal};
use distlock_redis::{RedisConfig, RedlockBackend, RedlockOptions};

use crate::rig::{LONG, Servers, busy, is_held, patient, renewed, take};
use crate::support::{eventually, request, run, take as take_one, tests};

tests![
    a_minority_may_die_and_no_more,
    a_server_that_was_down_votes_when_it_is_back,
    nobody_waits_twice_for_a_frozen_server,
    too_few_servers_are_no_store,
    one_server_has_one_vote,
    one_server_under_a_second_name_has_one_vote_later_too,
    a_probe_names_each_server,
    full_servers_grant_nothing_as_a_majority_but_take_locks_back,
    records_by_another_hand_count_as_a_majority_and_can_be_cleared,
];

async fn a_minority_may_die_and_no_more() {
    let mut servers = Servers::start(5).await;
    let backend = servers.backend().await;
    let held = take(&backend, &request("held", LONG)).await;
    for dead in 0..2 {
        servers.0[dead].kill();
        let lease = take(&backend, &request(&format!("key {dead}"), LONG)).await;
        assert!(lease.token > held.token);
        renewed(&backend, &lease).await;
        renewed(&backend, &held).await;
        busy(&backend, &request("held", LONG)).await;
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    }
    servers.0[2].kill();
    let late = request("key", LONG);
    let error = backend.try_lock(&late).await.unwrap_err();
    assert_eq!((error.kind(), error.backend()), (ErrorKind::Unavailable, Some("redlock")));
    assert!(error.to_string().contains("of the 5 servers"), "{error}");
    eventually("two servers keep no trace of what three can't grant", async || {
        !is_held(&servers.0[3], "key").await && !is_held(&servers.0[4], "key").await
    })
    .await;
    let error = backend.renew(&held, LONG).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown), "that is no loss");
    assert_eq!(backend.unlock(&held.claim).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(
        backend.admin().unwrap().inspect(&late.claim.key).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    servers.0[0].start_again().await;
    eventually("a majority grants again", async || backend.try_lock(&late).await.is_ok()).await;
}

async fn a_server_that_was_down_votes_when_it_is_back() {
    let mut servers = Servers::start(3).await;
    servers.0[2].kill();
    let backend = servers.backend().await;
    take(&backend, &request("early", LONG)).await;
    servers.0[2].start_again().await;
    eventually("the third server votes", async || {
        take(&backend, &request(&format!("key {}", fastrand::u64(..)), LONG)).await;
        let held: i64 = redis::cmd("DBSIZE").query_async(&mut servers.0[2].raw().await).await.unwrap();
        held > 0
    })
    .await;
    servers.0[0].kill();
    take(&backend, &request("late", LONG)).await;
}

async fn nobody_waits_twice_for_a_frozen_server() {
    let servers = Servers::start(5).await;
    let limit = Duration::from_secs(3);
    let backend = servers.backend().await;
    take(&backend, &request("before", LONG)).await;
    // A vote that is split between the living, so that the frozen one would decide.
    for server in &servers.0[..2] {
        take_one(&server.backend().await, &request("split", LONG)).await;
    }
    servers.0[4].pause();
    let before = Instant::now();
    busy(&backend, &request("split", LONG)).await;
    let first = before.elapsed();
    assert!(first >= limit, "{first:?}: its vote would decide");
    let before = Instant::now();
    take(&backend, &request("free", LONG)).await;
    busy(&backend, &request("free", LONG)).await;
    assert!(before.elapsed() < limit, "three of the others are enough");
    servers.0[4].resume();
}

async fn too_few_servers_are_no_store() {
    let mut servers = Servers::start(3).await;
    let configs: Vec<_> = servers.0.iter().map(|server| server.config()).collect();
    for number in [0, 1, 2] {
        let some = configs.iter().take(number).cloned();
        let error = RedlockBackend::connect(some, RedlockOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions, "{number}: {error}");
    }
    let queued = configs.iter().cloned().map(|config| config.queue(true));
    let error = RedlockBackend::connect(queued, RedlockOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions, "{error}");
    let apart = configs.iter().cloned().enumerate().map(|(at, config)| config.prefix(format!("{}:", at / 2)));
    let error = RedlockBackend::connect(apart, RedlockOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions, "{error}");
    assert!(error.to_string().contains("prefix"), "{error}");
    servers.0[0].kill();
    servers.0[1].kill();
    let error = RedlockBackend::connect(configs, RedlockOptions::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true), "{error}");
}

async fn one_server_has_one_vote() {
    let servers = Servers::start(2).await;
    let configs = [0, 1, 1].map(|server: usize| servers.0[server].config());
    let error = RedlockBackend::connect(configs, RedlockOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("same server"), "{error}");
    let backends = [servers.0[0].backend().await, servers.0[1].backend().await, servers.0[1].backend().await];
    let error = RedlockBackend::from_backends(backends, RedlockOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

async fn one_server_under_a_second_name_has_one_vote_later_too() {
    let mut servers = Servers::start(2).await;
    let folder = tempfile::tempdir().unwrap();
    let alias = folder.path().join("alias");
    let mut configs: Vec<_> = servers.0.iter().map(|server| server.config()).collect();
    configs.push(RedisConfig::new(alias.display().to_string()));
    let backend = RedlockBackend::connect(configs, patient()).await.unwrap();
    take(&backend, &request("two of three", LONG)).await;
    std::os::unix::fs::symlink(servers.0[1].socket(), &alias).unwrap();
    take(&backend, &request("still two", LONG)).await;
    servers.0[0].kill();
    let error = backend.try_lock(&request("one-of-two-names", LONG)).await.unwrap_err();
    assert!(!is_held(&servers.0[1], "one-of-two-names").await, "{error}");
}

async fn a_probe_names_each_server() {
    let mut servers = Servers::start(3).await;
    let backend = servers.backend().await;
    servers.0[1].kill();
    let health = backend.probe().await.unwrap();
    let all: Vec<_> = health.warnings.iter().map(|warning| warning.what.as_str()).collect();
    let name = |server: usize| servers.0[server].socket().display().to_string();
    assert!(all.iter().any(|what| what.starts_with(&name(1)) && what.contains("can't be used")), "{all:?}");
    assert!(all.iter().any(|what| what.starts_with(&name(0)) && what.contains("keeps nothing")), "{all:?}");
    assert!(all.iter().any(|what| what.contains("votes at once")), "{all:?}");
    servers.0[2].kill();
    assert_eq!(backend.probe().await.unwrap_err().kind(), ErrorKind::Unavailable);
    let lease = distlock_core::Lease::granted(
        &request("x", LONG),
        distlock_core::FencingToken::MIN,
        LONG,
        backend.clock().now(),
    );
    assert!(!matches!(backend.renew(&lease, LONG).await, Ok(Renewal::Lost(_))), "two may have it");
}

async fn full_servers_grant_nothing_as_a_majority_but_take_locks_back() {
    let servers = Servers::start(3).await;
    let backend = servers.backend().await;
    let held = take(&backend, &request("held", LONG)).await;
    run(&mut servers.0[0].raw().await, "CONFIG SET maxmemory 1").await;
    take(&backend, &request("of the others", LONG)).await;
    run(&mut servers.0[1].raw().await, "CONFIG SET maxmemory 1").await;
    let error = backend.try_lock(&request("free", LONG)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("maxmemory"), "{error}");
    assert_eq!(backend.unlock(&held.claim).await.unwrap(), Release::Released);
    for full in &servers.0[..2] {
        run(&mut full.raw().await, "CONFIG SET maxmemory 0").await;
    }
    eventually("the attempt left nothing", async || !is_held(&servers.0[2], "free").await).await;
    take(&backend, &request("free", LONG)).await;
}

async fn records_by_another_hand_count_as_a_majority_and_can_be_cleared() {
    let servers = Servers::start(3).await;
    let backend = servers.backend().await;
    let first = take(&backend, &request("k", LONG)).await;
    assert_eq!(backend.unlock(&first.claim).await.unwrap(), Release::Released);
    let spoil = async |server: usize| {
        run(&mut servers.0[server].raw().await, "SET distlock:lock:k someone").await;
    };
    spoil(0).await;
    let second = take(&backend, &request("k", LONG)).await;
    assert!(second.token > first.token, "the other two agree");
    assert_eq!(backend.unlock(&second.claim).await.unwrap(), Release::Released);
    spoil(1).await;
    let error = backend.try_lock(&request("k", LONG)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    take(&backend, &request("another", LONG)).await;
    backend.admin().unwrap().force_unlock(&first.claim.key).await.unwrap();
    assert!(take(&backend, &request("k", LONG)).await.token > second.token);
}
