//! Whose turn it is, and who hears of it.

use std::time::Duration;

use distlock_core::{Busy, LockBackend, LockRequest, Release, TryLock};
use distlock_redis::RedisBackend;
use futures_util::FutureExt;

use crate::rig::*;
use crate::support::{Server, busy, eventually, number, request, run, take, tests};

tests! {
    a_release_wakes_the_head_alone,
    a_turn_between_answer_and_wait_is_not_missed,
    each_waits_for_the_one_in_front,
    a_dead_holder_is_succeeded_by_the_head,
    handing_over_passes_the_queue_and_leaves_no_place,
    a_free_lock_costs_no_more_than_without_a_queue,
    a_release_gives_the_lock_to_the_head_if_it_waits_in_the_same_program,
    a_release_passes_nobody_who_waits_elsewhere,
    who_may_have_got_the_lock_by_a_lost_answer_looks_for_itself,
}

async fn listening(server: &Server, count: i64) {
    eventually("all listen", async || {
        let clients: String =
            redis::from_redis_value(run(&mut server.raw().await, "CLIENT LIST TYPE pubsub").await).unwrap();
        i64::try_from(clients.trim().lines().filter(|line| line.contains("sub=1")).count()).unwrap() == count
    })
    .await;
}

/// Until the backend hears messages, so that an answer's cursor counts from one.
async fn hears(server: &Server, backend: &RedisBackend) {
    take(backend, &request("other", LONG)).await;
    let other = request("other", LONG);
    let seen = busy(backend, &other).await;
    let watch = backend.watch_release(&other.claim, &seen);
    tokio::select! {
        _ = watch => panic!("nothing was released"),
        () = async {
            listening(server, 1).await;
            eventually("it left its mark", async || {
                number(&mut server.raw().await, "HEXISTS distlock:lock:other mark").await == 1
            }).await;
        } => {}
    }
}

async fn a_release_wakes_the_head_alone() {
    let server = Server::start(&[]).await;
    let (backend, holder) = (queueing(&server).await, queueing(&server).await);
    hears(&server, &backend).await;
    let lease = take(&holder, &request("k", LONG)).await;
    let waiters = queue_of(&backend, 3).await;
    let mut seen = Vec::new();
    for waiter in &waiters {
        seen.push(queue_up(&backend, waiter).await);
    }
    let watch = |at: usize| Box::pin(backend.watch_release(&waiters[at].claim, &seen[at]));
    let (mut first, mut second, mut third) = (watch(0), watch(1), watch(2));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    holder.unlock(&lease.claim).await.unwrap();
    tokio::time::timeout(AMPLE, first).await.unwrap().unwrap();
    // One message, which is heard as a whole.
    assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
    // Who gives the turn back wakes the next.
    backend.unlock(&waiters[0].claim).await.unwrap();
    tokio::time::timeout(AMPLE, &mut second).await.unwrap().unwrap();
    assert!(third.now_or_never().is_none());
    // Who was not the head wakes nobody, and the head keeps its turn.
    backend.unlock(&waiters[2].claim).await.unwrap();
    take(&backend, &waiters[1]).await;
}

async fn a_turn_between_answer_and_wait_is_not_missed() {
    let server = Server::start(&[]).await;
    let backend = queueing(&server).await;
    hears(&server, &backend).await;
    for _ in 0..50 {
        let lease = take(&backend, &request("k", LONG)).await;
        let (first, second) = (waiter(), waiter());
        let (seen, behind) = (queue_up(&backend, &first).await, queue_up(&backend, &second).await);
        backend.unlock(&lease.claim).await.unwrap();
        let watch = |request: &LockRequest, busy: &Busy| {
            let (claim, busy, backend) = (request.claim.clone(), busy.clone(), &backend);
            async move { tokio::time::timeout(AMPLE, backend.watch_release(&claim, &busy)).await.unwrap() }
        };
        watch(&first, &seen).await.unwrap();
        backend.unlock(&first.claim).await.unwrap();
        watch(&second, &behind).await.unwrap();
        backend.unlock(&second.claim).await.unwrap();
    }
}

async fn each_waits_for_the_one_in_front() {
    let server = Server::start(&[]).await;
    let backend = queueing(&server).await;
    let lease = take(&backend, &request("k", Duration::from_millis(500))).await;
    let waiters = queue_of(&backend, 3).await;
    let (first, second, third) = (
        queue_up(&backend, &waiters[0]).await,
        queue_up(&backend, &waiters[1]).await,
        queue_up(&backend, &waiters[2]).await,
    );
    // The head comes when the lease ends; the others not before those in front of them must be dead.
    assert!(first.free_in.unwrap() <= lease.ttl + Duration::from_micros(1), "{first:?}");
    for busy in [&second, &third] {
        let turn = busy.free_in.unwrap();
        assert!(turn > lease.ttl && turn <= LIVENESS + Duration::from_micros(1), "{busy:?}");
        assert!(busy.holder.as_ref().unwrap().expires_in.unwrap() <= lease.ttl, "{busy:?}");
    }
    backend.unlock(&lease.claim).await.unwrap();
    let plain = busy(&backend, &request("k", LONG)).await;
    assert!(plain.holder.is_none() && plain.free_in.unwrap() <= LIVENESS, "reserved: {plain:?}");
    take(&backend, &waiters[0]).await;
}

async fn a_dead_holder_is_succeeded_by_the_head() {
    let server = Server::start(&[]).await;
    let backend = queueing(&server).await;
    take(&backend, &request("k", Duration::from_millis(300))).await;
    let waiters = queue_of(&backend, 3).await;
    eventually("the lease ends", async || {
        for waiter in waiters[1..].iter().rev() {
            queue_up(&backend, waiter).await;
        }
        busy(&backend, &request("k", LONG)).await.holder.is_none()
    })
    .await;
    for waiter in waiters {
        let lease = take(&backend, &waiter).await;
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    }
}

async fn handing_over_passes_the_queue_and_leaves_no_place() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let mut lease = take(&backend, &request("k", LONG)).await;
    let waiters = queue_of(&backend, 2).await;
    // Whether it had a place or not.
    for next in [waiter(), waiters[1].clone()] {
        let TryLock::Acquired(passed) = backend.hand_over(&lease, &next).await.unwrap() else { panic!() };
        assert_eq!(passed.claim, next.claim);
        assert!(passed.token > lease.token);
        lease = passed;
    }
    assert_eq!(places(&mut raw).await, [waiters[0].claim.owner.to_string()]);
    backend.unlock(&lease.claim).await.unwrap();
    take(&backend, &waiters[0]).await;
}

async fn a_free_lock_costs_no_more_than_without_a_queue() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    let before = backend.commands_sent().unwrap();
    for _ in 0..10 {
        let lease = take(&backend, &waiter()).await;
        backend.unlock(&lease.claim).await.unwrap();
    }
    assert_eq!(backend.commands_sent().unwrap() - before, 20);
    assert_eq!(number(&mut raw, "HLEN distlock:lock:k").await, 1, "nothing but the token stays");
}

/// Waits for the hint of one claim, from before `release` is begun.
async fn woken_by(
    backend: &RedisBackend,
    waiter: &LockRequest,
    seen: &Busy,
    release: impl Future<Output = ()>,
) {
    let mut watch = Box::pin(backend.watch_release(&waiter.claim, seen));
    assert!((&mut watch).now_or_never().is_none());
    let (woken, ()) = tokio::join!(tokio::time::timeout(AMPLE, watch), release);
    woken.unwrap().unwrap();
}

async fn a_release_gives_the_lock_to_the_head_if_it_waits_in_the_same_program() {
    let server = Server::start(&[]).await;
    let (backend, mut raw) = (queueing(&server).await, server.raw().await);
    hears(&server, &backend).await;
    let lease = take(&backend, &request("k", LONG)).await;
    let (first, second) = (waiter(), waiter());
    let (seen, _) = (queue_up(&backend, &first).await, queue_up(&backend, &second).await);
    let before = backend.commands_sent().unwrap();
    let release = async {
        assert_eq!(backend.unlock(&lease.claim).await.unwrap(), Release::Released);
    };
    woken_by(&backend, &first, &seen, release).await;
    let next = take(&backend, &first).await;
    assert_eq!(backend.commands_sent().unwrap() - before, 1, "one for both");
    assert!(next.token > lease.token && next.valid_until > backend.clock().now());
    let holder = run(&mut raw, "HMGET distlock:lock:k owner token").await;
    let holder: Vec<String> = redis::from_redis_value(holder).unwrap();
    assert_eq!(holder, [first.claim.owner.to_string(), next.token.to_string()]);
    assert_eq!(places(&mut raw).await, [second.claim.owner.to_string()]);
    // It is a grant like any other: a repeat and a late release find it.
    assert_eq!(take(&backend, &first).await.token, next.token);
    assert_eq!(backend.unlock(&first.claim).await.unwrap(), Release::Released);
    take(&backend, &second).await;
}

async fn a_release_passes_nobody_who_waits_elsewhere() {
    let server = Server::start(&[]).await;
    let (backend, other) = (queueing(&server).await, queueing(&server).await);
    hears(&server, &other).await;
    let lease = take(&backend, &request("k", LONG)).await;
    let (first, ours) = (waiter(), waiter());
    let (seen, behind) = (queue_up(&other, &first).await, queue_up(&backend, &ours).await);
    let watch = backend.watch_release(&ours.claim, &behind);
    tokio::pin!(watch);
    assert!((&mut watch).now_or_never().is_none());
    woken_by(&other, &first, &seen, async {
        backend.unlock(&lease.claim).await.unwrap();
    })
    .await;
    assert!(watch.now_or_never().is_none(), "it is not its turn");
    take(&other, &first).await;
}

async fn who_may_have_got_the_lock_by_a_lost_answer_looks_for_itself() {
    let server = Server::start(&[]).await;
    let backend = queueing(&server).await;
    hears(&server, &backend).await;
    let lease = take(&backend, &request("k", LONG)).await;
    let first = waiter();
    let seen = queue_up(&backend, &first).await;
    woken_by(&backend, &first, &seen, async {
        server.pause();
        let unanswered = tokio::time::timeout(Duration::from_millis(100), backend.unlock(&lease.claim));
        assert!(unanswered.await.is_err());
        server.resume();
    })
    .await;
    let next = granted(&backend, &first).await;
    assert!(next.token > lease.token);
}
