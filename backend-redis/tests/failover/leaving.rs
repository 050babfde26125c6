//! What stays behind of a backend that ends.

use distlock_conformance::Server as _;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{LockBackend, TryLock};
use distlock_testbed::{Server, ServiceSet};

use crate::cluster::nodes;
use crate::servers::{ask, connect, eventually, lock, request, tests};

tests! {
    "cluster":
        closing_and_dropping_leave_no_connection_to_nodes;
    "sentinel":
        closing_and_dropping_leave_no_connection_to_master_and_sentinels;
}

const TTL: Duration = Duration::from_secs(60);

async fn closing_and_dropping_leave_no_connection_to_nodes(set: &ServiceSet) {
    ends(set, "cluster", &nodes(set)).await;
}

async fn closing_and_dropping_leave_no_connection_to_master_and_sentinels(set: &ServiceSet) {
    ends(set, "sentinel", &["ms0", "ms1", "ms2", "se0", "se1", "se2"].map(|name| set.server(name))).await;
}

async fn ends(set: &ServiceSet, group: &str, servers: &[Server]) {
    for (turn, closes) in [true, false, true, false].into_iter().enumerate() {
        let backend = Arc::new(connect(&format!("{}?wait_replicas=1", set.url(group))).await);
        let mut waits = Vec::new();
        for n in 0..8 {
            let key = format!("{turn} {n}");
            lock(&backend, &request(&key, TTL)).await;
            let waiter = request(&key, TTL);
            let TryLock::Busy(busy) = backend.try_lock(&waiter).await.unwrap() else { panic!("it is held") };
            let waits_on = Arc::clone(&backend);
            waits.push(tokio::spawn(async move { waits_on.watch_release(&waiter.claim, &busy).await }));
        }
        eventually("they listen", async || connections(servers).await > 2).await;
        // While something is under way, and in the last turns while a server is silent.
        let silent = (turn > 1).then(|| &servers[1]);
        if let Some(silent) = silent {
            silent.pause().await;
        }
        let under_way = {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move {
                backend.renew_many(&[], TTL).await.len() + usize::from(backend.probe().await.is_ok())
            })
        };
        tokio::task::yield_now().await;
        if closes {
            backend.close().await.unwrap();
        } else {
            waits.iter().for_each(|wait| wait.abort());
            under_way.abort();
        }
        if !closes {
            drop(backend);
        }
        if let Some(silent) = silent {
            silent.resume().await;
        }
        eventually("nobody is connected any more", async || connections(servers).await == 0).await;
        for wait in waits {
            assert!(wait.await.is_err() || closes);
        }
    }
}

/// How many connections of clients the servers have, but for those of each other and of the one who asks.
async fn connections(servers: &[Server]) -> usize {
    let mut count = 0;
    for server in servers {
        let clients: String = ask(server, "CLIENT LIST").await.unwrap();
        let is_stranger = |line: &&str| {
            let has = |part: &str| line.contains(part);
            has(" name= ") && !has("flags=S") && !has("flags=M") && !has("cmd=client|list")
        };
        count += clients.lines().filter(is_stranger).count();
    }
    count
}
