#![doc = include_str!("../README.md")]

mod connect;

pub use connect::{connect, connect_with, registry};
pub use distlock_core::*;
/// The SQLite backend.
#[cfg(feature = "sqlite")]
pub use distlock_sql::sqlite;
