#![doc = include_str!("../README.md")]

mod connect;

pub use connect::{connect, connect_with, registry};
pub use distlock_core::*;
/// The Redis and Valkey backend.
#[cfg(feature = "redis")]
pub use distlock_redis as redis;
/// The SQLite backend.
#[cfg(feature = "sqlite")]
pub use distlock_sql::sqlite;
