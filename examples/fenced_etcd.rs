//! Two programs set a balance in etcd, each under the lock. The first stalls for longer than its ttl, and then
//! writes as if nothing had happened. The transaction that writes refuses it, since the second one's token is
//! higher. Lock and data are on the servers of `DISTLOCK_URL`, or on this machine's:
//! `cargo run -p distlock-examples --features etcd --example fenced_etcd`.
#![expect(clippy::print_stdout, reason = "the example's output")]

use std::time::Duration;

use distlock::etcd::etcd_client::TxnOp;
use distlock::etcd::{EtcdConfig, EtcdFenceGate};
use distlock::{LockGuard, LockOptions, RenewPolicy, StoreUrl};

const ACCOUNT: &str = "account/7";
const BALANCE: &str = "balance/7";

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let url = std::env::var("DISTLOCK_URL").unwrap_or_else(|_| "etcd://127.0.0.1".into());
    let client = distlock::connect(&url).await?;
    // The data may well be elsewhere than the locks.
    let gate = EtcdFenceGate::connect(EtcdConfig::from_url(&mut StoreUrl::parse(&url)?)?).await?;

    // Nothing renews this lock, just as nothing would while the whole machine stands still.
    let stalling = LockOptions::default().ttl(Duration::from_millis(300)).renew(RenewPolicy::Manual);
    let first = client.lock_with(ACCOUNT, &stalling).await?;
    set(&gate, &first, 100).await?;
    println!("first:  holds token {}, sets the balance to 100, and stalls", first.token());
    first.lost().await;

    let second = client.lock(ACCOUNT).await?;
    set(&gate, &second, 120).await?;
    println!("second: holds token {}, and sets it to 120", second.token());
    second.unlock().await?;

    match set(&gate, &first, 110).await {
        Ok(()) => println!("first:  goes on and sets it to 110: an update was lost"),
        Err(refused) if refused.is_lost() => {
            println!("first:  goes on and wants to set it to 110, but: {refused}")
        }
        Err(error) => return Err(error),
    }
    client.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

/// Writes the balance, unless somebody with a higher token has written since. Any operations of one transaction
/// can stand here.
async fn set(gate: &EtcdFenceGate, guard: &LockGuard, balance: u64) -> distlock::Result<()> {
    let write = TxnOp::put(BALANCE, balance.to_string(), None);
    gate.write(guard.key(), guard.token(), [write]).await.map(drop)
}
