//! The crate distributed-lock-redis, on one Redis server.

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::RedisLockProvider;

use crate::peer::{Failure, Peer};

pub struct DistributedLock(RedisLockProvider);

impl Peer for DistributedLock {
    const NAME: &'static str = "distributed-lock";
    const SCHEME: &'static str = "redis";
    const DIFFERS: &'static str =
        "no fencing token and no wake-up: waiters ask again, in no order; renews by a task for each lock";

    async fn open(url: &str, _: usize) -> Result<Self, Failure> {
        Ok(Self(RedisLockProvider::new(url).await?))
    }

    async fn pair(&self, key: &str, _: usize) -> Result<(), Failure> {
        self.0.create_lock(key).acquire(None).await?.release().await?;
        Ok(())
    }
}
