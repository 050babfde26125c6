//! Who waits is woken, and costs little.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{ErrorKind, LockBackend, LockClient, LockOptions};
use distlock_redis::RedisBackend;

use crate::support::*;

tests! {
    only_who_waits_leaves_a_mark_and_only_then_a_release_is_announced,
    a_waiter_that_lost_its_connection_looks_for_itself,
    one_connection_listens_for_all,
    a_hand_off_between_programs_costs_one_attempt_each,
    closing_ends_waits,
}

const LONG: Duration = Duration::from_secs(60);
const AMPLE: Duration = Duration::from_secs(20);

async fn has_mark(server: &Server) -> bool {
    number(&mut server.raw().await, "HEXISTS distlock:lock:k mark").await == 1
}

async fn published(server: &Server) -> bool {
    let stats: String =
        redis::from_redis_value(run(&mut server.raw().await, "INFO commandstats").await).unwrap();
    stats.contains("cmdstat_publish:")
}

async fn only_who_waits_leaves_a_mark_and_only_then_a_release_is_announced() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let lease = take(&backend, &request("k", LONG)).await;
    busy(&backend, &request("k", LONG)).await;
    assert!(!has_mark(&server).await, "a plain try leaves nothing");
    backend.unlock(&lease.claim).await.unwrap();
    assert!(!published(&server).await);
    let lease = take(&backend, &request("k", LONG)).await;
    let waiter = request("k", LONG);
    let seen = busy(&backend, &waiter).await;
    let releases = async {
        eventually("the waiter leaves a mark", async || has_mark(&server).await).await;
        backend.unlock(&lease.claim).await.unwrap();
    };
    let waits = tokio::time::timeout(AMPLE, backend.watch_release(&waiter.claim, &seen));
    let (woken, ()) = tokio::join!(waits, releases);
    woken.unwrap().unwrap();
    assert!(published(&server).await && !has_mark(&server).await);
}

async fn a_waiter_that_lost_its_connection_looks_for_itself() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let lease = take(&backend, &request("k", LONG)).await;
    let waiter = request("k", LONG);
    for _ in 0..3 {
        let seen = busy(&backend, &waiter).await;
        // A connection that breaks before it is listened to concerns nobody: so it is done again.
        let breaks = async {
            let mut raw = server.raw().await;
            loop {
                run(&mut raw, "CLIENT KILL TYPE pubsub").await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let waits = tokio::time::timeout(AMPLE, backend.watch_release(&waiter.claim, &seen));
        let woken = tokio::select! {
            woken = waits => woken,
            () = breaks => unreachable!("it goes on for ever"),
        };
        woken.expect("a message may have been missed").unwrap();
    }
    let seen = busy(&backend, &waiter).await;
    let releases = async {
        eventually("it listens again", async || has_mark(&server).await).await;
        backend.unlock(&lease.claim).await.unwrap();
    };
    let waits = tokio::time::timeout(AMPLE, backend.watch_release(&waiter.claim, &seen));
    tokio::join!(waits, releases).0.unwrap().unwrap();
}

async fn one_connection_listens_for_all() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    let mut leases = Vec::new();
    for n in 0..50 {
        leases.push(take(&backend, &request(&format!("k{n}"), LONG)).await);
    }
    let waits = (0..50).map(|n| {
        let backend = &backend;
        async move {
            let waiter = request(&format!("k{n}"), LONG);
            let seen = busy(backend, &waiter).await;
            backend.watch_release(&waiter.claim, &seen).await.unwrap();
        }
    });
    let releases = async {
        let mut raw = server.raw().await;
        for (n, lease) in leases.iter().enumerate() {
            let mark = format!("HEXISTS distlock:lock:k{n} mark");
            eventually("each waits", async || number(&mut raw, &mark).await == 1).await;
            if n == 0 {
                let clients: String =
                    redis::from_redis_value(run(&mut raw, "CLIENT LIST TYPE pubsub").await).unwrap();
                assert_eq!(clients.trim().lines().count(), 1);
            }
            backend.unlock(&lease.claim).await.unwrap();
        }
    };
    let all = async { tokio::join!(futures_util::future::join_all(waits), releases) };
    tokio::time::timeout(AMPLE, all).await.unwrap();
}

/// A release, and one attempt of each program's first waiter, which leaves its mark on the way.
async fn a_hand_off_between_programs_costs_one_attempt_each() {
    const PROGRAMS: u32 = 4;
    const TURNS: u32 = 30;
    let server = Server::start(&[]).await;
    let mut backends = Vec::new();
    for _ in 0..PROGRAMS {
        backends.push(Arc::new(server.backend().await));
    }
    let sent = || backends.iter().map(|backend| backend.commands_sent().unwrap()).sum::<u64>();
    let options = LockOptions::default().ttl(LONG);
    let contend = |backend: &Arc<RedisBackend>| {
        let client = LockClient::new(Arc::<RedisBackend>::clone(backend));
        let options = options.clone();
        tokio::spawn(async move {
            for _ in 0..TURNS {
                let guard = client.lock_with("k", &options).await.unwrap();
                // Long enough for the others to stand and wait.
                tokio::time::sleep(Duration::from_millis(30)).await;
                guard.unlock().await.unwrap();
            }
        })
    };
    let before = sent();
    let contenders: Vec<_> = backends.iter().map(contend).collect();
    for contender in contenders {
        tokio::time::timeout(Duration::from_secs(120), contender).await.unwrap().unwrap();
    }
    let each = (sent() - before) as f64 / f64::from(PROGRAMS * TURNS);
    eprintln!("{each:.2} commands for a hand-off among {PROGRAMS} programs");
    // The first wait of each claim takes a second look.
    assert!(each <= f64::from(PROGRAMS) + 2.5, "{each}");
}

async fn closing_ends_waits() {
    let server = Server::start(&[]).await;
    let backend = server.backend().await;
    take(&backend, &request("k", LONG)).await;
    let waiter = request("k", LONG);
    let seen = busy(&backend, &waiter).await;
    let closes = async {
        eventually("it waits", async || has_mark(&server).await).await;
        backend.close().await.unwrap();
    };
    let waits = tokio::time::timeout(AMPLE, backend.watch_release(&waiter.claim, &seen));
    let (woken, ()) = tokio::join!(waits, closes);
    assert_eq!(woken.unwrap().unwrap_err().kind(), ErrorKind::Shutdown);
    let error = backend.try_lock(&request("other", LONG)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Shutdown, false), "{error}");
    eventually("nobody is connected any more", async || {
        let mut raw = server.raw().await;
        let clients: String = redis::from_redis_value(run(&mut raw, "CLIENT LIST").await).unwrap();
        clients.trim().lines().count() == 1
    })
    .await;
}
