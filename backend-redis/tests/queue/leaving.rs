//! Waiters that give up leave at once and hold nobody up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_core::{LockBackend, LockClient, LockOptions, Queueing, WaitPolicy};

use crate::rig::*;
use crate::support::{Server, eventually, request, run, take, tests};

tests! {
    a_waiter_that_times_out_in_the_middle_is_skipped,
    time_limits_of_those_in_front_don_t_add_up,
    a_cancelled_acquire_leaves_no_ghost,
    the_first_alive_calls_the_next_when_it_leaves,
}

fn strict(patience: Duration) -> LockOptions {
    LockOptions::default().queue(Queueing::Strict).wait(WaitPolicy::UpTo(patience))
}

async fn a_waiter_that_times_out_in_the_middle_is_skipped() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let first = waiter();
    queue_up(&backend, &first).await;
    let client = LockClient::new(Arc::new(queueing(&server).await));
    let impatient =
        tokio::spawn(async move { client.lock_with("k", &strict(Duration::from_millis(300))).await });
    eventually("it queues", async || queued(&mut raw).await == 2).await;
    let last = waiter();
    queue_up(&backend, &last).await;
    assert!(impatient.await.unwrap().unwrap_err().is_wait_timeout());
    assert_eq!(queued(&mut raw).await, 2, "it is out before its call returns");
    backend.unlock(&lease.claim).await.unwrap();
    for waiter in [&first, &last] {
        take(&backend, waiter).await;
        backend.unlock(&waiter.claim).await.unwrap();
    }
}

/// As fair locks do that compute each waiter's time-out from the one before.
async fn time_limits_of_those_in_front_don_t_add_up() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let mut quitters = Vec::new();
    for _ in 0..4 {
        let client = LockClient::new(Arc::new(queueing(&server).await));
        quitters.push(tokio::spawn(async move {
            for _ in 0..20 {
                let given_up = client.lock_with("k", &strict(Duration::from_millis(50))).await;
                assert!(given_up.unwrap_err().is_wait_timeout());
            }
        }));
    }
    eventually("some queue", async || queued(&mut raw).await >= 2).await;
    let patient = LockClient::new(Arc::new(queueing(&server).await));
    let patient = tokio::spawn(async move { patient.lock_with("k", &strict(LONG)).await.unwrap() });
    for quitter in quitters {
        quitter.await.unwrap();
    }
    eventually("the patient one is left", async || queued(&mut raw).await == 1).await;
    backend.unlock(&lease.claim).await.unwrap();
    let freed = Instant::now();
    let guard = tokio::time::timeout(AMPLE, patient).await.unwrap().unwrap();
    eprintln!("served {:?} after the release", freed.elapsed());
    assert!(guard.is_valid() && freed.elapsed() < Duration::from_secs(10));
}

async fn a_cancelled_acquire_leaves_no_ghost() {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let client = LockClient::new(Arc::new(queueing(&server).await));
    for _ in 0..20 {
        let waits: Vec<_> = (0..10)
            .map(|_| {
                let (client, after) = (client.clone(), Duration::from_micros(random.u64(..20_000)));
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(after, client.lock_with("k", &strict(LONG))).await;
                })
            })
            .collect();
        for wait in waits {
            wait.await.unwrap();
        }
    }
    eventually("nobody is left", async || places(&mut raw).await.is_empty()).await;
    assert_eq!(queued(&mut raw).await, 0);
    backend.unlock(&lease.claim).await.unwrap();
    take(&backend, &request("k", LONG)).await;
}

/// Also if somebody who died meanwhile still stands in front of it.
async fn the_first_alive_calls_the_next_when_it_leaves() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let patient = backend_with(&server, AMPLE).await;
    let lease = take(&backend, &request("k", LONG)).await;
    let waiters = queue_of(&patient, 3).await;
    let seen = queue_up(&patient, &waiters[2]).await;
    let leaves = async {
        eventually("somebody listens", async || {
            let lanes = run(&mut raw, "PUBSUB CHANNELS distlock:released:*").await;
            redis::from_redis_value::<Vec<String>>(lanes).unwrap().len() == 1
        })
        .await;
        backend.unlock(&lease.claim).await.unwrap();
        move_signs(&mut raw, &[waiters[0].claim.owner.to_string()], -60_000_000).await;
        backend.unlock(&waiters[1].claim).await.unwrap();
    };
    let watch = tokio::time::timeout(AMPLE, patient.watch_release(&waiters[2].claim, &seen));
    let (called, ()) = tokio::join!(watch, leaves);
    called.expect("it is called").unwrap();
    take(&patient, &waiters[2]).await;
}
