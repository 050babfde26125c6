//! Waiters that die hold nobody up for longer than their liveness, and leave nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_core::{LockBackend, LockClient, LockOptions, Queueing};
use distlock_redis::RedisBackend;
use redis::Value;

use crate::program::Program;
use crate::rig::*;
use crate::support::{Server, eventually, number, request, run, take, tests};

tests! {
    b062_waiters_that_wait_for_long_keep_their_places,
    b064_a_killed_program_leaves_no_obstacle,
    a_waiter_that_dies_at_the_head_is_passed,
    a_thousand_dead_waiters_are_purged,
    dead_waiters_behind_a_live_one_are_purged,
    a_queue_that_somebody_broke_begins_anew,
}

/// How long a sign of life counts unless it is said otherwise.
const PERIOD: Duration = Duration::from_secs(5);

async fn b062_waiters_that_wait_for_long_keep_their_places() {
    const SERVED: &str = "served";
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let mut waiters = Vec::new();
    for n in 0..6_usize {
        let patient = RedisBackend::connect(server.config().queue(true)).await.unwrap();
        let client = LockClient::new(Arc::new(patient));
        let mut own = server.raw().await;
        waiters.push(tokio::spawn(async move {
            let options = LockOptions::default().queue(Queueing::Strict);
            let guard = client.lock_with("k", &options).await.unwrap();
            redis::cmd("RPUSH").arg(SERVED).arg(n).exec_async(&mut own).await.unwrap();
            guard.unlock().await.unwrap();
        }));
        eventually("it queues", async || queued(&mut raw).await == n + 1).await;
    }
    let order = places(&mut raw).await;
    // Ten times as long as a waiter takes for a sign of life, and more than two such signs count.
    let begun = Instant::now();
    eventually("a long wait", async || {
        assert_eq!(queued(&mut raw).await, order.len());
        begun.elapsed() > 2 * PERIOD + Duration::from_secs(1)
    })
    .await;
    backend.unlock(&lease.claim).await.unwrap();
    for waiter in waiters {
        tokio::time::timeout(AMPLE, waiter).await.unwrap().unwrap();
    }
    let served: Vec<usize> =
        redis::cmd("LRANGE").arg(SERVED).arg(0).arg(-1).query_async(&mut raw).await.unwrap();
    assert_eq!(served, (0..6).collect::<Vec<_>>());
}

async fn b064_a_killed_program_leaves_no_obstacle() {
    const TTL: Duration = Duration::from_secs(3);
    let server = Server::start(&[]).await;
    let mut raw = server.raw().await;
    let mut doomed = Program::start(&server).await;
    for n in 0..21 {
        doomed.order(&format!("wait {n} {}", TTL.as_millis())).await;
        eventually("one holds, and the others wait", async || {
            number(&mut raw, "EXISTS distlock:lock:k").await == 1 && queued(&mut raw).await == n
        })
        .await;
    }
    doomed.kill().await;
    let next = queueing(&server).await;
    let killed = Instant::now();
    granted(&next, &waiter()).await;
    let took = killed.elapsed();
    eprintln!("free {took:?} after the kill");
    // A waiter's sign of life may be as late as the holder's.
    assert!(took < TTL + PERIOD + Duration::from_secs(10), "{took:?}");
    assert!(places(&mut raw).await.is_empty());
}

async fn a_waiter_that_dies_at_the_head_is_passed() {
    let server = Server::start(&[]).await;
    let backend = queueing(&server).await;
    let lease = take(&backend, &request("k", LONG)).await;
    let waiters = queue_of(&backend, 3).await;
    backend.unlock(&lease.claim).await.unwrap();
    let freed = Instant::now();
    // The head is not heard of again; the last one asks all the time, and the second keeps its place.
    eventually("the second is served", async || {
        queue_up(&backend, &waiters[2]).await;
        matches!(backend.try_lock(&waiters[1]).await.unwrap(), distlock_core::TryLock::Acquired(_))
    })
    .await;
    assert!(freed.elapsed() > LIVENESS / 2, "the head had its time: {:?}", freed.elapsed());
    backend.unlock(&waiters[1].claim).await.unwrap();
    take(&backend, &waiters[2]).await;
}

async fn a_thousand_dead_waiters_are_purged() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let asks: Vec<_> = (0..1000).map(|_| waiter()).collect();
    futures_util::future::join_all(asks.iter().map(|waiter| queue_up(&backend, waiter))).await;
    assert_eq!((queued(&mut raw).await, places(&mut raw).await.len()), (1000, 1000));
    let owners = places(&mut raw).await;
    move_signs(&mut raw, &owners, -3_600_000_000).await;
    run(&mut raw, "CONFIG SET slowlog-log-slower-than 0").await;
    backend.unlock(&lease.claim).await.unwrap();
    run(&mut raw, "CONFIG SET slowlog-log-slower-than -1").await;
    assert_eq!(number(&mut raw, "HLEN distlock:lock:k").await, 1, "nothing but the token stays");
    let log: Vec<Vec<Value>> = redis::cmd("SLOWLOG").arg("GET").arg(10).query_async(&mut raw).await.unwrap();
    let slowest =
        log.into_iter().map(|entry| redis::from_redis_value::<u64>(entry[2].clone()).unwrap()).max();
    eprintln!("it took the server {slowest:?} µs");
    take(&backend, &request("k", LONG)).await;
}

async fn dead_waiters_behind_a_live_one_are_purged() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    take(&backend, &request("k", LONG)).await;
    let patient = waiter();
    queue_up(&backend, &patient).await;
    for _ in 0..50 {
        let before = places(&mut raw).await;
        queue_of(&backend, 10).await;
        let mut dead = places(&mut raw).await;
        dead.retain(|owner| !before.contains(owner));
        move_signs(&mut raw, &dead, -3_600_000_000).await;
    }
    // Each newcomer clears away whoever died at the end.
    assert!(queued(&mut raw).await <= 11, "{}", queued(&mut raw).await);
    queue_up(&backend, &waiter()).await;
    assert_eq!((queued(&mut raw).await, places(&mut raw).await.len()), (2, 2));
}

async fn a_queue_that_somebody_broke_begins_anew() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    for broken in 0..3 {
        let waiters = queue_of(&backend, 3).await;
        run(&mut raw, &format!("HDEL distlock:lock:k w:{}", waiters[broken].claim.owner)).await;
        for _ in 0..3 {
            for waiter in &waiters {
                queue_up(&backend, waiter).await;
            }
        }
        assert_eq!((queued(&mut raw).await, places(&mut raw).await.len()), (3, 3), "{broken}");
        for waiter in &waiters {
            backend.unlock(&waiter.claim).await.unwrap();
        }
        assert_eq!((queued(&mut raw).await, places(&mut raw).await.len()), (0, 0), "{broken}");
    }
    backend.unlock(&lease.claim).await.unwrap();
    take(&backend, &waiter()).await;
}
