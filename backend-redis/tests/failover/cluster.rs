//! A node of a Cluster that its replica replaces.

use distlock_conformance::Server as _;
use std::time::{Duration, Instant};

use distlock_core::{Effect, ErrorKind, LockBackend, Release, Renewal, TryLock};
use distlock_redis::RedisBackend;
use distlock_testbed::{Server, ServiceSet};

use crate::load::{AGAIN, Load};
use crate::servers::{allow, ask, connect, eventually, is_master, lock, raw, request, tests};

tests! {
    "cluster":
        b035_every_client_works_again_after_a_node_was_killed,
        a_node_that_comes_back_is_not_used,
        after_an_unsynced_failover_there_are_two_holders_and_the_second_has_the_higher_token,
        a_silent_node_does_not_hold_up_renewals_at_the_others,
        a_record_by_another_hand_is_told_and_can_be_cleared,
        a_full_node_refuses_grants_but_takes_locks_back,
        b113_braces_in_a_key_decide_nothing,
        the_rights_in_the_documentation_are_enough;
}

const TTL: Duration = Duration::from_secs(30);

pub(crate) fn nodes(set: &ServiceSet) -> [Server; 6] {
    ["cl0", "cl1", "cl2", "cl3", "cl4", "cl5"].map(|name| set.server(name))
}

/// The record of a key, wherever it is.
pub(crate) async fn record_of(set: &ServiceSet, key: &str) -> (Server, String) {
    for server in nodes(set) {
        if !is_master(&server).await {
            continue;
        }
        let names: Vec<String> = ask(&server, "KEYS *").await.unwrap();
        if let Some(name) = names.into_iter().find(|name| name.ends_with(&format!("}}lock:{key}"))) {
            return (server, name);
        }
    }
    panic!("there is no record of {key}");
}

/// A key whose lock is on this node, held by nobody.
pub(crate) async fn key_on(backend: &RedisBackend, set: &ServiceSet, node: &Server, start: &str) -> String {
    for number in 0..1000 {
        let key = format!("{start}-{number}");
        let lease = lock(backend, &request(&key, TTL)).await;
        backend.unlock(&lease.claim).await.unwrap();
        if record_of(set, &key).await.0.name() == node.name() {
            return key;
        }
    }
    panic!("no key is on {}", node.name());
}

async fn b035_every_client_works_again_after_a_node_was_killed(set: &ServiceSet) {
    let load = Load::start(set.url("cluster")).await;
    for _ in 0..2 {
        let (node, _) = record_of(set, "load-0").await;
        let killed = Instant::now();
        node.kill9().await;
        load.all_work_within(&format!("after {} was killed", node.name()), killed, AGAIN).await;
        node.start().await;
        set.whole("cluster").await;
        load.all_work_within(&format!("after {} came back", node.name()), Instant::now(), AGAIN).await;
    }
    load.end().await;
}

async fn a_node_that_comes_back_is_not_used(set: &ServiceSet) {
    let [old, _, _, replica, ..] = nodes(set);
    let backend = connect(&format!("{}?response_timeout=30s", set.url("cluster"))).await;
    let key = key_on(&backend, set, &old, "key").await;
    old.pause().await;
    let under_way = request(&key, TTL);
    // Nothing tells a client of a switch by itself; other calls that are given up find it.
    let others = async {
        eventually("the replica takes over", async || {
            tokio::select! {
                _ = backend.try_lock(&under_way) => {}
                () = tokio::time::sleep(Duration::from_millis(300)) => {}
            }
            is_master(&replica).await
        })
        .await;
        lock(&backend, &request(&key, TTL)).await
    };
    let (answer, lease) = tokio::join!(backend.try_lock(&under_way), others);
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown), "{error}");
    backend.unlock(&lease.claim).await.unwrap();
    old.resume().await;
    for _ in 0..200 {
        let request = request(&key, TTL);
        let TryLock::Acquired(lease) = backend.try_lock(&request).await.unwrap() else {
            panic!("it is free")
        };
        let names: Vec<String> = ask(&replica, "KEYS *").await.unwrap();
        let name = names.into_iter().find(|name| name.ends_with(&format!("}}lock:{key}"))).unwrap();
        let mut raw = raw(&replica).await;
        let owner: Option<String> =
            redis::cmd("HGET").arg(name).arg("owner").query_async(&mut raw).await.unwrap();
        assert_eq!(owner, Some(lease.claim.owner.to_string()), "it stands at the new master");
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    }
}

async fn after_an_unsynced_failover_there_are_two_holders_and_the_second_has_the_higher_token(
    set: &ServiceSet,
) {
    let [master, _, _, replica, ..] = nodes(set);
    let (first, second) = (connect(set.url("cluster")).await, connect(set.url("cluster")).await);
    let key = key_on(&first, set, &master, "key").await;
    replica.pause().await;
    ask::<i64>(&master, "CLIENT KILL TYPE replica").await.unwrap();
    let lost = lock(&first, &request(&key, TTL)).await;
    master.kill9().await;
    replica.resume().await;
    let won = lock(&second, &request(&key, TTL)).await;
    let now = first.clock().now();
    assert!(now < lost.valid_until && now < won.valid_until, "both believe in their locks");
    assert!(won.token > lost.token, "and the resource can tell: {} after {}", won.token, lost.token);
    let mut renewal = first.renew(&lost, TTL).await;
    eventually("the first client finds the new master", async || {
        renewal = first.renew(&lost, TTL).await;
        renewal.is_ok()
    })
    .await;
    assert!(matches!(renewal.unwrap(), Renewal::Lost(_)), "the first hears of it when it renews");
}

async fn a_silent_node_does_not_hold_up_renewals_at_the_others(set: &ServiceSet) {
    let [silent, other, ..] = nodes(set);
    let backend = connect(set.url("cluster")).await;
    let (on_silent, on_other) =
        (key_on(&backend, set, &silent, "a").await, key_on(&backend, set, &other, "b").await);
    let ttl = Duration::from_secs(6);
    let leases =
        [lock(&backend, &request(&on_silent, ttl)).await, lock(&backend, &request(&on_other, ttl)).await];
    silent.pause().await;
    let started = Instant::now();
    let renewals = backend.renew_many(&leases, ttl).await;
    eprintln!("a batch with a silent node took {:?}", started.elapsed());
    assert!(matches!(renewals[1], Ok(Renewal::Renewed { .. })), "{renewals:?}");
    assert!(renewals[0].is_err(), "nothing is known of it: {renewals:?}");
    silent.resume().await;
}

async fn b113_braces_in_a_key_decide_nothing(set: &ServiceSet) {
    let backend = connect(set.url("cluster")).await;
    let keys = ["{a}b", "a{b", "{}", "}{", "{a}c", "a"];
    let mut leases = Vec::new();
    for key in keys {
        leases.push(lock(&backend, &request(key, TTL)).await);
        let busy = backend.try_lock(&request(key, TTL)).await.unwrap();
        assert!(matches!(busy, TryLock::Busy(_)), "{key}: {busy:?}");
    }
    let renewals = backend.renew_many(&leases, TTL).await;
    assert!(renewals.iter().all(|renewal| matches!(renewal, Ok(Renewal::Renewed { .. }))), "{renewals:?}");
    for lease in leases {
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released,);
    }
}

async fn the_rights_in_the_documentation_are_enough(set: &ServiceSet) {
    for node in nodes(set) {
        allow(&node, "+cluster|nodes +asking +wait").await;
    }
    let url = set.url("cluster").replace("://", "://locks:secret@");
    let backend = connect(&format!("{url}?wait_replicas=1")).await;
    let lease = lock(&backend, &request("k", TTL)).await;
    let other = connect(&url).await;
    let waiter = request("k", TTL);
    let released = async {
        crate::waiting::marked(set, "k").await;
        backend.unlock(&lease.claim).await.unwrap();
    };
    tokio::join!(crate::waiting::hear(&other, &waiter), released);
}

async fn a_record_by_another_hand_is_told_and_can_be_cleared(set: &ServiceSet) {
    let backend = connect(set.url("cluster")).await;
    let lease = lock(&backend, &request("k", TTL)).await;
    let (node, name) = record_of(set, "k").await;
    backend.unlock(&lease.claim).await.unwrap();
    ask::<()>(&node, &format!("SET {name} someone")).await.unwrap();
    let error = backend.try_lock(&request("k", TTL)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Corrupt, Effect::None), "{error}");
    lock(&backend, &request("another", TTL)).await;
    backend.admin().unwrap().force_unlock(&lease.claim.key).await.unwrap();
    assert!(lock(&backend, &request("k", TTL)).await.token > lease.token);
}

async fn a_full_node_refuses_grants_but_takes_locks_back(set: &ServiceSet) {
    let [full, other, ..] = nodes(set);
    let backend = connect(set.url("cluster")).await;
    let (key, free) = (key_on(&backend, set, &full, "a").await, key_on(&backend, set, &full, "b").await);
    let elsewhere = key_on(&backend, set, &other, "c").await;
    let lease = lock(&backend, &request(&key, TTL)).await;
    ask::<()>(&full, "CONFIG SET maxmemory 1").await.unwrap();
    let error = backend.try_lock(&request(&free, TTL)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Overloaded, Effect::None), "{error}");
    lock(&backend, &request(&elsewhere, TTL)).await;
    assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    ask::<()>(&full, "CONFIG SET maxmemory 0").await.unwrap();
    lock(&backend, &request(&free, TTL)).await;
}
