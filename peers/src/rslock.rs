//! The crate rslock, on one Redis server.

use rslock::LockManager;

use crate::peer::{Failure, Peer, TTL};

pub struct Rslock(LockManager);

impl Peer for Rslock {
    const NAME: &'static str = "rslock";
    const SCHEME: &'static str = "redis";
    const DIFFERS: &'static str =
        "no fencing token, no renewal and no wake-up: waiters ask again after random pauses, in no order";
    const FASTER_ALONE: &'static str = "it keeps no token, and sends a SET and a script that deletes: the server does less for each than for a record with token, holder and ttl";
    const FASTER_CONTENDED: &'static str = "whoever has just released is the first to ask again, and gets the lock once more while the others pause";

    async fn open(url: &str, _: usize) -> Result<Self, Failure> {
        Ok(Self(LockManager::new(vec![url])))
    }

    async fn pair(&self, key: &str, _: usize) -> Result<(), Failure> {
        self.0.acquire(key, TTL).await?.release().await;
        Ok(())
    }
}
