//! Only the server's clock counts, and a step of it holds nobody up.

use redis::Value;

use crate::rig::*;
use crate::support::{Server, busy, request, run, take, tests};
use distlock_core::LockBackend;

tests! {
    what_a_waiter_sends_says_nothing_of_its_clock,
    a_clock_set_back_keeps_nobody_alive,
    a_clock_set_forward_costs_places_and_nothing_else,
}

const HOUR: i64 = 3_600_000_000;

/// Clocks of clients may differ as they like, since no client sends a time of day.
async fn what_a_waiter_sends_says_nothing_of_its_clock() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    run(&mut raw, "CONFIG SET slowlog-log-slower-than 0").await;
    run(&mut raw, "CONFIG SET slowlog-max-len 100").await;
    run(&mut raw, "SLOWLOG RESET").await;
    let waiter = waiter();
    queue_up(&backend, &waiter).await;
    backend.unlock(&waiter.claim).await.unwrap();
    let Value::Array(entries) = run(&mut raw, "SLOWLOG GET -1").await else { panic!() };
    let mut calls: Vec<Vec<String>> = entries
        .into_iter()
        .map(|entry| match entry {
            Value::Array(parts) => redis::from_redis_value(parts[3].clone()).unwrap(),
            other => panic!("{other:?}"),
        })
        .filter(|call: &Vec<String>| call[0].eq_ignore_ascii_case("EVALSHA"))
        .collect();
    calls.reverse();
    let owner = waiter.claim.owner.to_string();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0][3..], ["distlock:lock:k", &owner, "60000000", "", "2000000"]);
    assert_eq!(calls[1][3..][..4], ["distlock:lock:k", &owner, "distlock:released", "k"]);
    backend.unlock(&lease.claim).await.unwrap();
}

async fn a_clock_set_back_keeps_nobody_alive() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let waiters = queue_of(&backend, 3).await;
    let owners = places(&mut raw).await;
    move_signs(&mut raw, &owners, HOUR).await;
    backend.unlock(&lease.claim).await.unwrap();
    let seen = busy(&backend, &request("k", LONG)).await;
    assert!(seen.free_in.unwrap() <= LIVENESS + std::time::Duration::from_micros(1), "{seen:?}");
    // The two in front are never heard of again.
    granted(&backend, &waiters[2]).await;
    assert_eq!(queued(&mut raw).await, 0);
}

async fn a_clock_set_forward_costs_places_and_nothing_else() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let waiters = queue_of(&backend, 5).await;
    let owners = places(&mut raw).await;
    move_signs(&mut raw, &owners, -HOUR).await;
    // The first to ask keeps its place; the others come too late for theirs.
    queue_up(&backend, &waiters[3]).await;
    assert_eq!(queued(&mut raw).await, 2);
    for waiter in &waiters {
        queue_up(&backend, waiter).await;
    }
    assert_eq!(queued(&mut raw).await, 5);
    backend.unlock(&lease.claim).await.unwrap();
    for at in [3, 0, 1, 2, 4] {
        let lease = take(&backend, &waiters[at]).await;
        backend.unlock(&lease.claim).await.unwrap();
    }
    assert!(places(&mut raw).await.is_empty());
}
