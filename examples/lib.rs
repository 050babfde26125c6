//! Runnable programs that show distlock at work: `cargo run --example NAME`.
//!
//! | example | shows |
//! |---|---|
//! | `quickstart` | taking a lock, its token, giving it back |
//! | `fenced_write` | the update that is lost without a fence, and refused with one |
//! | `fenced_redis` | the same for data in Redis, where the script that writes refuses a stale token |
//! | `fenced_etcd` | the same for data in etcd, where the transaction that writes refuses it |
//! | `lost_lock` | how a holder learns that its lock is in danger, and lost |
//! | `cron_once` | a job that runs once although every machine starts it |
//! | `worker_pool` | workers that keep out of each other's way, and a clean shutdown |
//! | `custom_backend` | a store of your own, and the suite that judges it |
//!
//! Each takes the store's URL from `LOCK_URL`; without it they use `memory:`, a store inside the
//! process. To see several processes share locks, start one of them more than once with the same
//! `LOCK_URL=sqlite:/tmp/locks.db`, or with `--features redis` and `LOCK_URL=redis://127.0.0.1`, and so
//! on for `postgres` and `mysql`.
//! `fenced_redis` always takes a Redis server, and `fenced_etcd` an etcd server: this machine's if none is named.

/// The store that an example uses: `LOCK_URL`, or `memory:`.
#[must_use]
pub fn lock_url() -> String {
    std::env::var("LOCK_URL").unwrap_or_else(|_| "memory:".into())
}
