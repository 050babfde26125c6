//! What the probe finds, and which servers are refused.

use distlock_conformance::free_port;
use distlock_core::{ErrorKind, Health, LockBackend, StoreUrl};
use distlock_redis::RedisBackend;

use crate::support::{Server, eventually, request, run, take, tests};

tests! {
    b116_a_server_that_evicts_is_refused_unless_that_is_accepted,
    a_policy_changed_later_is_found,
    a_replica_is_refused_and_found,
    b125_replicas_are_named_and_don_t_stop_anybody,
    what_the_disk_keeps_is_told,
    a_user_who_may_not_ask_is_told_so_and_can_lock,
    a_hidden_config_does_not_hide_the_policy,
    every_finding_says_what_to_do,
}

fn found(health: &Health, part: &str) -> bool {
    health.warnings.iter().any(|warning| warning.what.contains(part))
}

async fn b116_a_server_that_evicts_is_refused_unless_that_is_accepted() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let server = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", policy]).await;
        let error = RedisBackend::connect(server.config()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        let text = error.to_string();
        assert!(
            text.contains(policy) && text.contains("noeviction") && text.contains("allow_eviction"),
            "{text}"
        );
        let url = format!("redis+unix:{}?allow_eviction=true", server.socket().display());
        let backend = RedisBackend::from_url(&mut StoreUrl::parse(&url).unwrap()).await.unwrap();
        take(&backend, &request("a", std::time::Duration::from_secs(10))).await;
        assert!(found(&backend.probe().await.unwrap(), policy), "accepted is not forgotten");
    }
}

async fn a_policy_changed_later_is_found() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    assert!(!found(&backend.probe().await.unwrap(), "maxmemory-policy"));
    run(&mut server.raw().await, "CONFIG SET maxmemory-policy allkeys-random").await;
    assert!(found(&backend.probe().await.unwrap(), "allkeys-random"));
}

async fn a_replica_is_refused_and_found() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    run(&mut server.raw().await, "REPLICAOF 127.0.0.1 1").await;
    assert!(found(&backend.probe().await.unwrap(), "is a replica"));
    let error = RedisBackend::connect(server.config()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("replica"), "{error}");
}

async fn b125_replicas_are_named_and_don_t_stop_anybody() {
    let port = free_port();
    let text = port.to_string();
    let master = Server::start(&["--port", &text, "--repl-diskless-sync-delay", "0"]).await;
    let replica = Server::start(&["--replicaof", "127.0.0.1", &text]).await;
    let backend = master.backend().await;
    let mut raw = replica.raw().await;
    eventually("the replica follows", async || {
        let info: String = redis::from_redis_value(run(&mut raw, "INFO replication").await).unwrap();
        info.contains("master_link_status:up")
    })
    .await;
    let health = backend.probe().await.unwrap();
    assert!(found(&health, "replicas follow") && found(&health, "cut off from its replicas"), "{health:?}");
    run(&mut master.raw().await, "CONFIG SET min-replicas-to-write 1").await;
    let health = backend.probe().await.unwrap();
    assert!(found(&health, "replicas follow") && !found(&health, "cut off from its replicas"), "{health:?}");
}

async fn what_the_disk_keeps_is_told() {
    let server = Server::start(&["--appenddirname", "log"]).await;
    let backend = server.backend().await;
    let mut raw = server.raw().await;
    for (settings, part) in [
        (&[][..], "keeps nothing on disk"),
        (&["save 3600 1"], "snapshots alone"),
        (&["appendonly yes", "appendfsync everysec"], "last second"),
        (&["appendfsync no"], "thirty seconds"),
    ] {
        for setting in settings {
            let (name, value) = setting.split_once(' ').unwrap();
            redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec_async(&mut raw).await.unwrap();
        }
        let health = backend.probe().await.unwrap();
        assert!(found(&health, part), "{settings:?}: {health:?}");
    }
    run(&mut raw, "CONFIG SET appendfsync always").await;
    let health = backend.probe().await.unwrap();
    assert_eq!(health.warnings, [], "nothing is left to say");
    assert!(
        health.version.is_some_and(|version| version.starts_with("Redis ") || version.starts_with("Valkey "))
    );
}

async fn a_user_who_may_not_ask_is_told_so_and_can_lock() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    let rights = "~distlock:* &distlock:* +@hash +@scripting +@pubsub +@connection +time +exists +pexpireat";
    run(&mut server.raw().await, &format!("ACL SETUSER locks on >pw {rights}")).await;
    let backend = RedisBackend::connect(server.config().user("locks").password("pw")).await.unwrap();
    take(&backend, &request("a", std::time::Duration::from_secs(10))).await;
    let health = backend.probe().await.unwrap();
    assert!(found(&health, "does not say how it is set up"), "{health:?}");
    assert_eq!(health.version, None);
}

async fn a_hidden_config_does_not_hide_the_policy() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    run(&mut server.raw().await, "ACL SETUSER locks on >pw ~* &* +@all -config").await;
    let config = server.config().user("locks").password("pw");
    let error = RedisBackend::connect(config.clone()).await.unwrap_err();
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
    let backend = RedisBackend::connect(config.allow_eviction(true)).await.unwrap();
    let health = backend.probe().await.unwrap();
    assert!(found(&health, "allkeys-lru") && found(&health, "does not tell its settings"), "{health:?}");
}

async fn every_finding_says_what_to_do() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru", "--replicaof", "127.0.0.1", "1"]).await;
    run(&mut server.raw().await, "REPLICAOF NO ONE").await;
    let backend = RedisBackend::connect(server.config().allow_eviction(true)).await.unwrap();
    run(&mut server.raw().await, "REPLICAOF 127.0.0.1 1").await;
    let health = backend.probe().await.unwrap();
    assert!(health.warnings.len() >= 3, "{health:?}");
    for warning in health.warnings {
        assert!(!warning.what.is_empty() && !warning.fix.is_empty(), "{warning:?}");
    }
}
