//! What all tests of the queue use.

use std::time::Duration;

use distlock_core::{Busy, Lease, LockBackend, LockRequest, TryLock};
use distlock_redis::RedisBackend;
use redis::aio::MultiplexedConnection;

use crate::support::{Server, busy, eventually, request};

pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const AMPLE: Duration = Duration::from_secs(30);
/// The shortest there is.
pub(crate) const LIVENESS: Duration = Duration::from_secs(2);

/// A backend that keeps a queue with the shortest liveness.
pub(crate) async fn queueing(server: &Server) -> RedisBackend {
    backend_with(server, LIVENESS).await
}

/// A backend that keeps a queue.
pub(crate) async fn backend_with(server: &Server, liveness: Duration) -> RedisBackend {
    RedisBackend::connect(server.config().queue(true).waiter_liveness(liveness)).await.unwrap()
}

/// A request of a waiter.
pub(crate) fn waiter() -> LockRequest {
    request("k", LONG).queue(true)
}

/// Takes a place in the queue, or refreshes it.
pub(crate) async fn queue_up(backend: &RedisBackend, waiter: &LockRequest) -> Busy {
    busy(backend, waiter).await
}

/// So many new waiters, in this order.
pub(crate) async fn queue_of(backend: &RedisBackend, count: usize) -> Vec<LockRequest> {
    let waiters: Vec<_> = (0..count).map(|_| waiter()).collect();
    for waiter in &waiters {
        queue_up(backend, waiter).await;
    }
    waiters
}

/// Asks every 50 ms until the lock is granted.
pub(crate) async fn granted(backend: &RedisBackend, request: &LockRequest) -> Lease {
    let mut lease = None;
    eventually("the lock is granted", async || {
        if let TryLock::Acquired(granted) = backend.try_lock(request).await.unwrap() {
            lease = Some(granted);
        }
        lease.is_some()
    })
    .await;
    lease.unwrap()
}

/// How many have a place, dead or alive, as the record says.
pub(crate) async fn queued(raw: &mut MultiplexedConnection) -> usize {
    let queue: Option<String> =
        redis::cmd("HGET").arg("distlock:lock:k").arg("queue").query_async(raw).await.unwrap();
    queue.map_or(0, |queue| queue.rsplit(' ').next().unwrap().parse().unwrap())
}

/// The owners that have a place, in no order.
pub(crate) async fn places(raw: &mut MultiplexedConnection) -> Vec<String> {
    let fields: Vec<String> = redis::cmd("HKEYS").arg("distlock:lock:k").query_async(raw).await.unwrap();
    fields.iter().filter_map(|field| field.strip_prefix("w:")).map(str::to_owned).collect()
}

/// Moves the sign of life of one waiter, or of all, by so many µs, as a step of the server's clock
/// the other way does.
pub(crate) async fn move_signs(raw: &mut MultiplexedConnection, owners: &[String], by: i64) {
    const MOVE: &str = "local value = redis.call('HGET', KEYS[1], ARGV[1]) \
                        local alive, rest = string.match(value, '^(%d+)( .*)$') \
                        redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', alive + ARGV[2]) .. rest)";
    for owner in owners {
        let mut command = redis::cmd("EVAL");
        command.arg(MOVE).arg(1).arg("distlock:lock:k").arg(format!("w:{owner}")).arg(by);
        command.exec_async(raw).await.unwrap();
    }
}
