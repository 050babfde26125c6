//! Locks in an SQLite database file, for all programs of one machine.

mod acquire;
mod admin;
mod backend;
mod checkpoints;
mod config;
mod connection;
pub(crate) mod error;
mod file;
mod hand_over;
mod list;
mod look;
mod machine;
mod open;
mod probe;
mod prune;
mod record;
mod release;
mod renew;
mod schema;
mod store;
mod together;
mod tokens;
mod waiting;

use std::sync::Arc;

use distlock_core::{Driver, LockBackend};

pub use backend::SqliteBackend;
pub use config::SqliteConfig;

pub use crate::fence::{FenceTable, TokenColumn};
#[doc(hidden)]
pub use machine::{Machine, ManualWallClock};

/// The URL schemes of this backend.
pub const SCHEMES: &[&str] = &["sqlite"];

/// This kind of store, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, SqliteConfig::URL_OPTIONS, |mut url| async move {
        let backend = SqliteBackend::from_url(&mut url).await?;
        Ok(Arc::new(backend) as Arc<dyn LockBackend>)
    })
}
