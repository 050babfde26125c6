#![doc = include_str!("../README.md")]

mod acquire;
mod admin;
mod backend;
mod config;
mod error;
mod fence_gate;
mod floor;
mod hand_over;
mod keepalives;
mod leases;
mod leasing;
mod link;
mod moving;
mod names;
mod probe;
mod queue;
mod record;
mod release;
mod renew;
mod shared;
mod silence;
mod spares;
mod standing;
mod store;
mod together;
mod waiting;

use std::sync::Arc;

use distlock_core::{Driver, LockBackend};
pub use etcd_client;

pub use backend::EtcdBackend;
pub use config::EtcdConfig;
pub use fence_gate::EtcdFenceGate;

/// The URL schemes of this backend.
pub const SCHEMES: &[&str] = &["etcd", "etcds"];

/// This kind of store, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, EtcdConfig::URL_OPTIONS, |mut url| async move {
        let backend = EtcdBackend::from_url(&mut url).await?;
        Ok(Arc::new(backend) as Arc<dyn LockBackend>)
    })
}
