//! What operators see and do where there are several servers.

use distlock_conformance::Server as _;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock_core::{ErrorKind, FencingToken, LockBackend, LockKey, Renewal, StoreUrl};
use distlock_redis::{Credentials, FencedScript, RedisBackend, RedisConfig};
use distlock_testbed::ServiceSet;

use crate::cluster::{nodes, record_of};
use crate::servers::{ask, connect, eventually, is_master, lock, request, tests};

tests! {
    "cluster":
        locks_of_all_nodes_are_listed_in_order,
        a_finding_names_its_node,
        a_password_changes_on_all_nodes,
        a_gate_is_where_the_tag_says;
    "sentinel":
        a_password_changes_behind_the_sentinels,
        the_master_alone_is_probed;
}

const TTL: Duration = Duration::from_secs(60);

fn config(url: &str) -> RedisConfig {
    RedisConfig::from_url(&mut StoreUrl::parse(url).unwrap()).unwrap()
}

async fn locks_of_all_nodes_are_listed_in_order(set: &ServiceSet) {
    let backend = connect(set.url("cluster")).await;
    let mut wanted = BTreeSet::new();
    let mut places = HashSet::new();
    for n in 0..40 {
        // Braces decide nothing about the node, and come back as they are.
        let key = format!("job/{{{n}}}*");
        lock(&backend, &request(&key, TTL)).await;
        if n < 12 {
            places.insert(record_of(set, &key).await.0.name().to_owned());
        }
        wanted.insert(LockKey::new(&key).unwrap());
    }
    lock(&backend, &request("other", TTL)).await;
    assert!(places.len() >= 2, "they are on several nodes: {places:?}");
    let admin = backend.admin().unwrap();
    for limit in [7, 100] {
        let mut seen = Vec::new();
        loop {
            let page = admin.list(b"job/", seen.last(), limit).await.unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            seen.extend(page.into_iter().map(|record| record.key));
        }
        assert_eq!(seen, wanted.iter().cloned().collect::<Vec<_>>(), "pages of {limit}");
    }
    let key = wanted.first().unwrap();
    let victim = admin.force_unlock(key).await.unwrap().unwrap();
    assert_eq!(admin.list(b"job/", None, 100).await.unwrap().len(), 39);
    let next = lock(&backend, &request(&key.to_string(), TTL)).await;
    assert!(next.token > victim.token);
}

async fn a_finding_names_its_node(set: &ServiceSet) {
    let backend = connect(set.url("cluster")).await;
    let health = backend.probe().await.unwrap();
    assert!(!health.warnings.iter().any(|warning| warning.what.contains("Cluster's state")), "{health:?}");
    let mut masters = Vec::new();
    for node in nodes(set) {
        if is_master(&node).await {
            masters.push(node);
        }
    }
    let odd = &masters[1];
    ask::<String>(odd, "CONFIG SET maxmemory-policy allkeys-lru").await.unwrap();
    let health = backend.probe().await.unwrap();
    let evicting: Vec<_> =
        health.warnings.iter().filter(|warning| warning.what.contains("allkeys-lru")).collect();
    assert_eq!(evicting.len(), 1, "{health:?}");
    assert!(evicting[0].what.starts_with(&odd.address().to_string()), "{health:?}");
    let error = RedisBackend::connect(config(set.url("cluster"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

async fn a_password_changes_on_all_nodes(set: &ServiceSet) {
    let password = Arc::new(Mutex::new("one".to_owned()));
    for node in nodes(set) {
        ask::<String>(&node, "ACL SETUSER locks on >one ~* &* +@all").await.unwrap();
    }
    let known = Arc::clone(&password);
    let provider = move || {
        let credentials = Credentials::new(known.lock().unwrap().clone()).user("locks");
        std::future::ready(Ok(credentials))
    };
    let backend = RedisBackend::connect(config(set.url("cluster")).credentials(provider)).await.unwrap();
    let mut leases = Vec::new();
    for n in 0..12 {
        leases.push(lock(&backend, &request(&format!("k{n}"), TTL)).await);
    }
    *password.lock().unwrap() = "two".to_owned();
    for node in nodes(set) {
        ask::<String>(&node, "ACL SETUSER locks resetpass >two").await.unwrap();
        ask::<i64>(&node, "CLIENT KILL USER locks").await.unwrap();
    }
    eventually("all are renewed with the new password", async || {
        let renewals = backend.renew_many(&leases, TTL).await;
        renewals.iter().all(|renewal| matches!(renewal, Ok(Renewal::Renewed { .. })))
    })
    .await;
}

async fn a_gate_is_where_the_tag_says(set: &ServiceSet) {
    let backend = connect(set.url("cluster")).await;
    let gate = backend.fence_gate();
    let set_value = FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])");
    let token = |value| FencingToken::new(value).unwrap();
    for tag in ["1", "42", "x"] {
        let (key, data) = (LockKey::new(format!("account:{{{tag}}}")).unwrap(), format!("balance:{{{tag}}}"));
        gate.write(&key, token(8), &set_value, &[&data], &["new"]).await.unwrap();
        let error = gate.write(&key, token(7), &set_value, &[&data], &["old"]).await.unwrap_err();
        assert!(error.is_lost(), "{error}");
    }
    let key = LockKey::new("account:{1}").unwrap();
    let error = gate.write(&key, token(9), &set_value, &["balance:{2}"], &["x"]).await.unwrap_err();
    assert_eq!(error.effect(), distlock_core::Effect::None, "{error}");
}

async fn a_password_changes_behind_the_sentinels(set: &ServiceSet) {
    let (master, password) = (set.server("ms0"), Arc::new(Mutex::new("one".to_owned())));
    ask::<String>(&master, "ACL SETUSER locks on >one ~* &* +@all").await.unwrap();
    let known = Arc::clone(&password);
    let provider = move || {
        let credentials = Credentials::new(known.lock().unwrap().clone()).user("locks");
        std::future::ready(Ok(credentials))
    };
    let backend = RedisBackend::connect(config(set.url("sentinel")).credentials(provider)).await.unwrap();
    let lease = lock(&backend, &request("k", TTL)).await;
    *password.lock().unwrap() = "two".to_owned();
    ask::<String>(&master, "ACL SETUSER locks resetpass >two").await.unwrap();
    ask::<i64>(&master, "CLIENT KILL USER locks").await.unwrap();
    eventually("it is renewed with the new password", async || {
        matches!(backend.renew(&lease, TTL).await, Ok(Renewal::Renewed { .. }))
    })
    .await;
}

async fn the_master_alone_is_probed(set: &ServiceSet) {
    let health = connect(set.url("sentinel")).await.probe().await.unwrap();
    let found = |part: &str| health.warnings.iter().any(|warning| warning.what.contains(part));
    assert!(found("replicas follow") && !found("is a replica"), "{health:?}");
}
