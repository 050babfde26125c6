//! Two programs add to a balance in Redis, each under the lock. The first stalls for longer than its ttl,
//! and then writes as if nothing had happened. The script that writes refuses it, since the second one's
//! token is higher. Lock and data are on the server of `DISTLOCK_URL`, or on this machine's:
//! `cargo run -p distlock-examples --features redis --example fenced_redis`.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::time::Duration;

use distlock::redis::{FencedScript, RedisConfig, RedisFenceGate};
use distlock::{LockGuard, LockOptions, RenewPolicy, StoreUrl};

/// In a Cluster, what stands in braces puts the newest token and the balance on one node.
const ACCOUNT: &str = "{account/7}";
const BALANCE: &str = "balance/{account/7}";

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let url = std::env::var("DISTLOCK_URL").unwrap_or_else(|_| "redis://127.0.0.1".into());
    let client = distlock::connect(&url).await?;
    // The data may well be elsewhere than the locks.
    let gate = RedisFenceGate::connect(RedisConfig::from_url(&mut StoreUrl::parse(&url)?)?).await?;
    let balance = Balance { gate, set: FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])") };

    // Nothing renews this lock, just as nothing would while the whole machine stands still.
    let stalling = LockOptions::default().ttl(Duration::from_millis(300)).renew(RenewPolicy::Manual);
    let first = client.lock_with(ACCOUNT, &stalling).await?;
    balance.set(&first, 100).await?;
    println!("first:  holds token {}, sets the balance to 100, and stalls", first.token());
    first.lost().await;

    let second = client.lock(ACCOUNT).await?;
    balance.set(&second, 120).await?;
    println!("second: holds token {}, and sets it to 120", second.token());
    second.unlock().await?;

    match balance.set(&first, 110).await {
        Ok(()) => println!("first:  goes on and sets it to 110: an update was lost"),
        Err(refused) if refused.is_lost() => {
            println!("first:  goes on and wants to set it to 110, but: {refused}")
        }
        Err(error) => return Err(error),
    }
    client.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

/// The balance, and the gate in front of it.
struct Balance {
    gate: RedisFenceGate,
    set: FencedScript,
}

impl Balance {
    /// Writes, unless somebody with a higher token has written since.
    async fn set(&self, guard: &LockGuard, balance: u64) -> distlock::Result<()> {
        self.gate
            .write(guard.key(), guard.token(), &self.set, &[BALANCE], &[balance.to_string()])
            .await
            .map(drop)
    }
}
