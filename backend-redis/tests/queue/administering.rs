//! What operators see of a queue, and do to it.

use distlock_core::LockBackend;

use crate::rig::*;
use crate::support::{Server, busy, key, request, take, tests};

tests! {
    waiters_are_counted_and_a_lock_that_is_awaited_is_listed,
    a_lock_taken_away_goes_to_the_head,
}

async fn waiters_are_counted_and_a_lock_that_is_awaited_is_listed() {
    let server = Server::start(&[]).await;
    let (backend, plain, mut raw) = (queueing(&server).await, server.backend().await, server.raw().await);
    let admin = backend.admin().unwrap();
    let lease = take(&backend, &request("k", LONG)).await;
    assert_eq!(admin.inspect(&key("k")).await.unwrap().unwrap().waiters, Some(0));
    assert_eq!(plain.admin().unwrap().inspect(&key("k")).await.unwrap().unwrap().waiters, None);
    let waiters = queue_of(&backend, 3).await;
    for admin in [admin, plain.admin().unwrap()] {
        assert_eq!(admin.inspect(&key("k")).await.unwrap().unwrap().waiters, Some(3));
    }
    backend.unlock(&lease.claim).await.unwrap();
    let listed = admin.list(b"", None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].holders.len(), listed[0].waiters), (0, Some(3)));
    let owners = places(&mut raw).await;
    move_signs(&mut raw, &owners, -3_600_000_000).await;
    assert!(admin.list(b"", None, 10).await.unwrap().is_empty(), "the dead don't wait");
    drop(waiters);
}

async fn a_lock_taken_away_goes_to_the_head() {
    let server = Server::start(&[]).await;
    let backend = queueing(&server).await;
    let lease = take(&backend, &request("k", LONG)).await;
    let waiters = queue_of(&backend, 2).await;
    let seen = queue_up(&backend, &waiters[0]).await;
    let watch = backend.watch_release(&waiters[0].claim, &seen);
    let forced = async {
        let victim = backend.admin().unwrap().force_unlock(&key("k")).await.unwrap().unwrap();
        assert_eq!(victim.owner, lease.claim.owner);
    };
    let (woken, ()) = tokio::join!(tokio::time::timeout(AMPLE, watch), forced);
    woken.unwrap().unwrap();
    busy(&backend, &request("k", LONG)).await;
    for waiter in waiters {
        let lease = take(&backend, &waiter).await;
        backend.unlock(&lease.claim).await.unwrap();
    }
}
