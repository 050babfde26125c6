#![doc = include_str!("../README.md")]

mod acquire;
mod admin;
mod backend;
mod config;
mod connection;
mod error;
mod fence_gate;
mod hand_over;
mod names;
mod probe;
mod release;
mod renew;
mod reply;
mod script;
mod store;
mod waiting;

use std::sync::Arc;

use distlock_core::{Driver, LockBackend};
pub use redis;

pub use backend::RedisBackend;
pub use config::{Credentials, CredentialsProvider, RedisConfig, Topology};
pub use fence_gate::{FencedScript, RedisFenceGate};

/// The URL schemes of this backend.
pub const SCHEMES: &[&str] = &["redis", "rediss", "valkey", "valkeys", "redis+unix"];

/// This kind of store, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, RedisConfig::URL_OPTIONS, |mut url| async move {
        let backend = RedisBackend::from_url(&mut url).await?;
        Ok(Arc::new(backend) as Arc<dyn LockBackend>)
    })
}
