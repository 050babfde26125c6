//! The crate distributed-lock-redis, on one Redis server.

use std::time::Duration;

use distributed_lock_core::error::LockError;
use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::RedisLockProvider;

use crate::peer::{Failure, Peer};

const AGAIN: Duration = Duration::from_millis(10);

pub struct DistributedLock(RedisLockProvider);

impl Peer for DistributedLock {
    const NAME: &'static str = "distributed-lock";
    const SCHEME: &'static str = "redis";
    const DIFFERS: &'static str = "no fencing token and no waiting: a call for a held lock fails, and is made again here every 10 ms, in no order; renews by a task for each lock";
    const FASTER_ALONE: &'static str = "it keeps no token, and sends two plain commands: the server does less for each than for a record with token, holder and ttl";

    async fn open(url: &str, _: usize) -> Result<Self, Failure> {
        Ok(Self(RedisLockProvider::new(url).await?))
    }

    async fn pair(&self, key: &str, _: usize) -> Result<(), Failure> {
        loop {
            match self.0.create_lock(key).acquire(None).await {
                Err(LockError::Timeout(_)) => tokio::time::sleep(AGAIN).await,
                held => return Ok(held?.release().await?),
            }
        }
    }
}
