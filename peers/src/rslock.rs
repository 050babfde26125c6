//! The crate rslock, on one Redis server, or on several by its own Redlock.

use rslock::LockManager;

use crate::peer::{Failure, Peer, TTL};

pub struct Rslock(LockManager);

impl Peer for Rslock {
    const NAME: &'static str = "rslock";
    const SCHEME: &'static str = "redis";
    const ALSO_ON: &'static [&'static str] = &["redlock"];
    const DIFFERS: &'static str =
        "no fencing token, no renewal and no wake-up: waiters ask again after random pauses, in no order";
    const FASTER_ALONE: &'static str = "it keeps no token, and sends a SET and a script that deletes: the server does less for each than for a record with token, holder and ttl";
    const FASTER_CONTENDED: &'static str = "whoever has just released is the first to ask again, and gets the lock once more while the others pause";

    async fn open(url: &str, _: usize) -> Result<Self, Failure> {
        Ok(Self(LockManager::new(servers(url))))
    }

    async fn pair(&self, key: &str, _: usize) -> Result<(), Failure> {
        self.0.acquire(key, TTL).await?.release().await;
        Ok(())
    }
}

/// The URL of each server: all have the same user and database.
fn servers(url: &str) -> Vec<String> {
    let Some(rest) = url.strip_prefix("redlock://") else { return vec![url.to_owned()] };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, hosts) = authority.rfind('@').map_or(("", authority), |at| authority.split_at(at + 1));
    hosts.split(',').map(|host| format!("redis://{user}{host}{path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::servers;

    #[test]
    fn each_server_of_a_redlock_has_a_url() {
        assert_eq!(servers("redis://a:1/2"), ["redis://a:1/2"]);
        assert_eq!(servers("redlock://me:x@a:1,b:2/3"), ["redis://me:x@a:1/3", "redis://me:x@b:2/3"]);
    }
}
