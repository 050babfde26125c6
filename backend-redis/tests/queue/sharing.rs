//! Programs with and without a queue on one store.

use std::sync::Arc;

use distlock_core::{LockBackend, LockClient};

use crate::rig::*;
use crate::support::{Server, busy, eventually, number, request, take, tests};

tests! {
    who_does_not_queue_passes_nobody,
    who_does_not_queue_is_woken_when_the_queue_is_empty,
    a_shared_hold_of_later_versions_keeps_the_queue,
}

async fn who_does_not_queue_passes_nobody() {
    let server = Server::start(&[]).await;
    let (queueing, plain) = (queueing(&server).await, server.backend().await);
    let lease = take(&plain, &request("k", LONG)).await;
    let waiters = queue_of(&queueing, 2).await;
    plain.unlock(&lease.claim).await.unwrap();
    for waiter in waiters {
        // Asking for a queue that its own store does not keep makes no difference.
        busy(&plain, &request("k", LONG)).await;
        busy(&plain, &request("k", LONG).queue(true)).await;
        take(&queueing, &waiter).await;
        queueing.unlock(&waiter.claim).await.unwrap();
    }
    take(&plain, &request("k", LONG)).await;
}

async fn who_does_not_queue_is_woken_when_the_queue_is_empty() {
    let server = Server::start(&[]).await;
    let (queueing, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&queueing, &request("k", LONG)).await;
    let next = waiter();
    queue_up(&queueing, &next).await;
    let client = LockClient::new(Arc::new(server.backend().await));
    let plain = tokio::spawn(async move { client.lock("k").await.unwrap().unlock().await });
    eventually("it left its mark", async || number(&mut raw, "HEXISTS distlock:lock:k mark").await == 1)
        .await;
    queueing.unlock(&lease.claim).await.unwrap();
    assert_eq!(number(&mut raw, "HEXISTS distlock:lock:k mark").await, 1, "it goes on waiting");
    // The queue's head leaves a lock that is free.
    queueing.unlock(&next.claim).await.unwrap();
    tokio::time::timeout(AMPLE, plain).await.unwrap().unwrap().unwrap();
    assert_eq!(number(&mut raw, "HLEN distlock:lock:k").await, 1, "nothing but the token stays");
}

async fn a_shared_hold_of_later_versions_keeps_the_queue() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let lease = take(&backend, &request("k", LONG)).await;
    let token = lease.token;
    backend.unlock(&lease.claim).await.unwrap();
    let until: Vec<u64> = redis::cmd("TIME").query_async(&mut raw).await.unwrap();
    let until = until[0] * 1_000_000 + until[1] + 700_000;
    redis::cmd("HSET").arg("distlock:lock:k").arg("shared").arg(until).exec_async(&mut raw).await.unwrap();
    let waiters = queue_of(&backend, 2).await;
    busy(&backend, &request("k", LONG)).await;
    assert!(granted(&backend, &waiters[0]).await.token > token);
    assert_eq!(queued(&mut raw).await, 1);
}
