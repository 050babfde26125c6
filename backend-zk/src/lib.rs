#![doc = include_str!("../README.md")]

mod acquire;
mod admin;
mod backend;
mod config;
mod fence_gate;
mod floor;
mod generation;
mod hand_over;
mod holder;
mod keeper;
mod names;
mod places;
mod probe;
mod record;
mod release;
mod renew;
mod report;
mod session;
mod silence;
mod store;
mod waiting;

use std::sync::Arc;

use distlock_core::{Driver, LockBackend};
pub use zookeeper_client;

pub use backend::ZkBackend;
pub use config::{Access, ZkConfig};
pub use fence_gate::ZkFenceGate;

/// The URL schemes of this backend.
pub const SCHEMES: &[&str] = &["zk", "zks"];

/// This kind of store, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, ZkConfig::URL_OPTIONS, |mut url| async move {
        let backend = ZkBackend::from_url(&mut url).await?;
        Ok(Arc::new(backend) as Arc<dyn LockBackend>)
    })
}
