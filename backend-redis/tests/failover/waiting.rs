//! Waiters while the servers change places.

use distlock_conformance::Server as _;
use std::time::{Duration, Instant};

use distlock_core::{LockBackend, LockRequest, TryLock};
use distlock_redis::RedisBackend;
use distlock_testbed::{Server, ServiceSet};

use crate::cluster::{key_on, nodes};
use crate::servers::{ask, connect, eventually, lock, request, tests};

tests! {
    "sentinel":
        waiters_follow_to_the_new_master;
    "cluster":
        waiters_follow_to_the_new_node,
        waiters_hear_although_some_slots_are_served_by_nobody;
}

const TTL: Duration = Duration::from_secs(60);

async fn waiters_follow_to_the_new_master(set: &ServiceSet) {
    let replicas = [set.server("ms1"), set.server("ms2")];
    let backend = connect(set.url("sentinel")).await;
    follow(set, "sentinel", &backend, &set.server("ms0"), &replicas, "key").await;
}

async fn waiters_follow_to_the_new_node(set: &ServiceSet) {
    let backend = connect(set.url("cluster")).await;
    let key = key_on(&backend, set, &set.server("cl0"), "key").await;
    follow(set, "cluster", &backend, &set.server("cl0"), &[set.server("cl3")], &key).await;
}

async fn waiters_hear_although_some_slots_are_served_by_nobody(set: &ServiceSet) {
    let (backend, other) = (connect(set.url("cluster")).await, connect(set.url("cluster")).await);
    let key = key_on(&backend, set, &set.server("cl1"), "key").await;
    for node in nodes(set) {
        ask::<()>(&node, "CONFIG SET cluster-require-full-coverage no").await.unwrap();
    }
    let lease = lock(&backend, &request(&key, TTL)).await;
    for dead in ["cl3", "cl0"] {
        set.server(dead).kill9().await;
    }
    for _ in 0..2 {
        let waiter = request(&key, TTL);
        let released = async {
            marked_at(&set.server("cl1"), &key).await;
            backend.unlock(&lease.claim).await.unwrap();
            lock(&backend, &lease_again(&lease)).await;
        };
        tokio::join!(hear(&other, &waiter), released);
    }
}

fn lease_again(lease: &distlock_core::Lease) -> LockRequest {
    LockRequest::new(lease.claim.clone(), TTL)
}

/// A failover wakes who waits, and who waits again hears of a release at the new master.
async fn follow(
    set: &ServiceSet,
    group: &str,
    backend: &RedisBackend,
    master: &Server,
    replicas: &[Server],
    key: &str,
) {
    let lease = lock(backend, &request(key, TTL)).await;
    for replica in replicas {
        synced(master, replica).await;
    }
    let other = connect(set.url(group)).await;
    let waiter = request(key, TTL);
    let broken = async {
        marked_at(master, key).await;
        master.kill9().await;
    };
    tokio::join!(hear(&other, &waiter), broken);
    // Until the new master serves, trying again fails; then the waiter waits again.
    let ready = Instant::now();
    eventually("the new master serves", async || {
        matches!(other.try_lock(&waiter).await, Ok(TryLock::Busy(_)))
            && backend.try_lock(&request(key, TTL)).await.is_ok()
    })
    .await;
    eprintln!("the new master served after {:?}", ready.elapsed());
    let released = async {
        let mut new = None;
        eventually("the waiter left its mark", async || {
            for replica in replicas {
                let is_marked = crate::servers::is_master(replica).await && is_marked(replica, key).await;
                new = is_marked.then(|| replica.clone()).or(new.take());
            }
            new.is_some()
        })
        .await;
        // The listener leaves the mark only once it is connected; the first wake may be that.
        backend.unlock(&lease.claim).await.unwrap()
    };
    tokio::join!(hear(&other, &waiter), released);
    lock(&other, &waiter).await;
}

/// Waits until the replica has what the master has.
pub(crate) async fn synced(master: &Server, replica: &Server) {
    let _ = master;
    eventually("the replica has the record", async || {
        let names: Vec<String> = ask(replica, "KEYS *lock:*").await.unwrap();
        !names.is_empty()
    })
    .await;
}

async fn is_marked(server: &Server, key: &str) -> bool {
    let Ok(names) = ask::<Vec<String>>(server, "KEYS *").await else { return false };
    let Some(name) = names.into_iter().find(|name| name.ends_with(&format!("lock:{key}"))) else {
        return false;
    };
    ask::<Option<String>>(server, &format!("HGET {name} mark")).await.is_ok_and(|mark| mark.is_some())
}

async fn marked_at(server: &Server, key: &str) {
    eventually("the waiter left its mark", async || is_marked(server, key).await).await;
}

/// Waits until somebody left a mark at the lock, wherever its record is.
pub(crate) async fn marked(set: &ServiceSet, key: &str) {
    let nodes = ["cl0", "cl1", "cl2"].map(|name| set.server(name));
    eventually("the waiter left its mark", async || {
        for node in &nodes {
            if is_marked(node, key).await {
                return true;
            }
        }
        false
    })
    .await;
}

/// Waits for a hint that the lock may be free.
pub(crate) async fn hear(backend: &RedisBackend, request: &LockRequest) {
    let TryLock::Busy(busy) = backend.try_lock(request).await.unwrap() else { panic!("it is held") };
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, backend.watch_release(&request.claim, &busy)).await.expect("a hint").unwrap();
}
