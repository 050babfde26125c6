#![doc = include_str!("../README.md")]

mod acquire;
mod admin;
mod backend;
mod bare;
mod config;
mod connection;
mod error;
mod fence_gate;
mod hand_over;
mod hash_slot;
mod names;
mod prepared;
mod probe;
mod quorum;
mod release;
mod renew;
mod replication;
mod reply;
mod script;
mod store;
mod waiting;

use std::sync::Arc;

use distlock_core::{Driver, LockBackend};
pub use redis;

pub use backend::RedisBackend;
pub use bare::BareScripts;
pub use config::{Credentials, CredentialsProvider, RedisConfig, Topology};
pub use fence_gate::{FencedScript, RedisFenceGate};
pub use quorum::{RedlockBackend, RedlockOptions, TokenMode};

/// The URL schemes of this backend.
pub const SCHEMES: &[&str] = &[
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];

/// The URL schemes of a quorum of independent servers.
pub const REDLOCK_SCHEMES: &[&str] = &["redlock", "redlocks"];

/// A quorum of independent servers, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn redlock_driver() -> Driver {
    Driver::new(REDLOCK_SCHEMES, RedlockOptions::URL_OPTIONS, |mut url| async move {
        let backend = RedlockBackend::from_url(&mut url).await?;
        Ok(Arc::new(backend) as Arc<dyn LockBackend>)
    })
}

/// This kind of store, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, RedisConfig::URL_OPTIONS, |mut url| async move {
        let backend = RedisBackend::from_url(&mut url).await?;
        Ok(Arc::new(backend) as Arc<dyn LockBackend>)
    })
}
