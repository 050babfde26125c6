#![doc = include_str!("../README.md")]

#[cfg(feature = "blocking")]
pub mod blocking;
mod connect;
pub mod guide;

pub use connect::{connect, connect_with, registry};
pub use distlock_core::*;
/// The etcd backend.
#[cfg(feature = "etcd")]
pub use distlock_etcd as etcd;
/// The Redis and Valkey backend.
#[cfg(feature = "redis")]
pub use distlock_redis as redis;
/// The MySQL and MariaDB backend.
#[cfg(feature = "mysql")]
pub use distlock_sql::mysql;
/// The PostgreSQL backend.
#[cfg(feature = "postgres")]
pub use distlock_sql::postgres;
/// The SQLite backend.
#[cfg(feature = "sqlite")]
pub use distlock_sql::sqlite;
/// The ZooKeeper backend.
#[cfg(feature = "zk")]
pub use distlock_zk as zk;
