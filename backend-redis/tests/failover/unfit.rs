//! Servers that are down or won't do, while the others go on.

use distlock_conformance::Server as _;
use std::time::Duration;

use distlock_core::{Effect, ErrorKind, LockBackend, TryLock};
use distlock_redis::RedisBackend;
use distlock_testbed::{Server, ServiceSet};

use crate::cluster::{key_on, nodes};
use crate::servers::{ask, connect, eventually, lock, new_master, request, tests};

tests! {
    "cluster":
        a_shard_that_is_down_costs_its_own_locks_alone,
        a_cluster_that_wants_all_its_slots_says_that_it_is_down,
        a_promoted_node_that_evicts_is_refused;
    "sentinel":
        a_promoted_server_that_evicts_is_refused;
}

const TTL: Duration = Duration::from_secs(30);

/// Ends the first shard; gives a key that was there, and one that is elsewhere.
async fn without_a_shard(set: &ServiceSet, wants_all: &str) -> (Server, String, String) {
    let [down, other, _, replica, ..] = nodes(set);
    for node in nodes(set) {
        ask::<()>(&node, &format!("CONFIG SET cluster-require-full-coverage {wants_all}")).await.unwrap();
    }
    let before = connect(set.url("cluster")).await;
    let (gone, alive) = (key_on(&before, set, &down, "a").await, key_on(&before, set, &other, "b").await);
    replica.kill9().await;
    down.kill9().await;
    eventually("the others know that it is down", async || {
        ask::<String>(&other, "CLUSTER NODES")
            .await
            .unwrap()
            .lines()
            .any(|line| line.contains("master,fail "))
    })
    .await;
    (down, gone, alive)
}

/// Nothing is granted, which is known for certain or not.
async fn unavailable(backend: &RedisBackend, key: &str) {
    let error = backend.try_lock(&request(key, TTL)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
}

async fn a_shard_that_is_down_costs_its_own_locks_alone(set: &ServiceSet) {
    let (down, gone, alive) = without_a_shard(set, "no").await;
    for _ in 0..6 {
        let backend = connect(set.url("cluster")).await;
        let lease = lock(&backend, &request(&alive, TTL)).await;
        unavailable(&backend, &gone).await;
        let health = backend.probe().await.unwrap();
        let found = |warning: &&distlock_core::Warning| {
            warning.what.starts_with(&down.address().to_string()) && warning.what.contains("can't be reached")
        };
        assert_eq!(health.warnings.iter().filter(found).count(), 1, "{health:?}");
        assert!(health.version.is_some());
        backend.unlock(&lease.claim).await.unwrap();
    }
    down.start().await;
    let backend = connect(set.url("cluster")).await;
    lock(&backend, &request(&gone, TTL)).await;
}

async fn a_cluster_that_wants_all_its_slots_says_that_it_is_down(set: &ServiceSet) {
    let (_, gone, alive) = without_a_shard(set, "yes").await;
    let backend = connect(set.url("cluster")).await;
    unavailable(&backend, &gone).await;
    unavailable(&backend, &alive).await;
    let health = backend.probe().await.unwrap();
    assert!(
        health.warnings.iter().any(|warning| warning.what.contains("Cluster's state is fail")),
        "{health:?}"
    );
}

async fn evict(server: &Server, policy: &str) {
    ask::<()>(server, &format!("CONFIG SET maxmemory-policy {policy}")).await.unwrap();
}

/// What comes of a lock after the failover: refused until the new master's policy is set right.
async fn refused_until_it_is_put_right(backend: &RedisBackend, key: &str, promoted: &Server) {
    let mut refused = None;
    eventually("the new master is refused", async || {
        refused = backend.try_lock(&request(key, TTL)).await.err();
        refused.as_ref().is_some_and(|error| error.kind() == ErrorKind::Misconfigured)
    })
    .await;
    let error = refused.unwrap();
    assert_eq!(error.effect(), Effect::None);
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
    evict(promoted, "noeviction").await;
    eventually("it is used", async || {
        matches!(backend.try_lock(&request(key, TTL)).await, Ok(TryLock::Acquired(_)))
    })
    .await;
}

async fn a_promoted_server_that_evicts_is_refused(set: &ServiceSet) {
    let (master, replicas) = (set.server("ms0"), [set.server("ms1"), set.server("ms2")]);
    for replica in &replicas {
        evict(replica, "allkeys-lru").await;
    }
    let backend = connect(set.url("sentinel")).await;
    let accepting = connect(&format!("{}?allow_eviction=true", set.url("sentinel"))).await;
    master.kill9().await;
    let promoted = new_master(&replicas).await;
    lock(&accepting, &request("accepted", TTL)).await;
    refused_until_it_is_put_right(&backend, "k", &promoted).await;
}

async fn a_promoted_node_that_evicts_is_refused(set: &ServiceSet) {
    let [master, other, _, replica, ..] = nodes(set);
    // The backend may ask any node who has what, and then looks at its policy.
    evict(&replica, "allkeys-lru").await;
    let backend = connect(set.url("cluster")).await;
    let key = key_on(&backend, set, &master, "a").await;
    let elsewhere = key_on(&backend, set, &other, "b").await;
    master.kill9().await;
    new_master(std::slice::from_ref(&replica)).await;
    lock(&backend, &request(&elsewhere, TTL)).await;
    refused_until_it_is_put_right(&backend, &key, &replica).await;
}
