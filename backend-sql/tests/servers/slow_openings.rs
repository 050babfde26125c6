//! Connections that take long to open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use distlock_conformance::Way;
use distlock_core::{ErrorKind, LockBackend as _};
use futures_util::future::join_all;

use crate::repeats::behind_proxy;
use crate::support::{MS, S, Tables, eventually, request, tests};

tests! {
    a_connection_that_takes_longer_to_open_than_a_call_may_is_there_for_a_later_one on BOTH,
    after_a_failure_one_connection_is_opened_at_a_time on BOTH,
}

async fn a_connection_that_takes_longer_to_open_than_a_call_may_is_there_for_a_later_one(tables: Tables) {
    let (proxy, behind) = behind_proxy(&tables);
    // One for attempts.
    let config = behind.config().connections(2).connect_timeout(20 * S).response_timeout(400 * MS);
    let backend = behind.connect(config).await;
    proxy.hold(Way::ToClient);
    proxy.reset().await;
    let error = backend.try_lock(&request("k", 60 * S)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let opened = proxy.traffic().connections;
    proxy.pass();
    eventually("a call is done", async || backend.try_lock(&request("k", 60 * S)).await.is_ok()).await;
    assert_eq!(proxy.traffic().connections, opened, "it opened another one");
}

async fn after_a_failure_one_connection_is_opened_at_a_time(tables: Tables) {
    const LIMIT: Duration = Duration::from_millis(300);
    let (proxy, behind) = behind_proxy(&tables);
    let backend = behind.connect(behind.config().connections(8).connect_timeout(LIMIT)).await;
    proxy.hold(Way::ToClient);
    proxy.reset().await;
    let failed = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..6)
        .map(|n| {
            let (backend, failed) = (Arc::clone(&backend), Arc::clone(&failed));
            tokio::spawn(async move {
                while backend.try_lock(&request(format!("k{n}"), 60 * S)).await.is_err() {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("a connection is given up", async || failed.load(Ordering::Relaxed) > 0).await;
    let (before, began) = (proxy.traffic().connections, Instant::now());
    eventually("others are opened", async || proxy.traffic().connections >= before + 4).await;
    // The last three of them, each when the one before was given up.
    assert!(began.elapsed() >= 2 * LIMIT, "{:?}", began.elapsed());
    proxy.pass();
    join_all(callers).await.into_iter().for_each(|caller| caller.unwrap());
}
