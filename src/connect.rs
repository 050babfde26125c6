//! From a URL to a client, with the stores this build has.

use distlock_core::{ClientOptions, LockClient, Registry, Result};

#[cfg(not(feature = "redis"))]
const REDIS: &[&str] = &[
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "redlock",
    "redlocks",
];

#[cfg(not(feature = "postgres"))]
const POSTGRES: &[&str] = &["postgres", "postgresql", "postgres+advisory", "postgresql+advisory"];

#[cfg(not(feature = "mysql"))]
const MYSQL: &[&str] = &["mysql", "mariadb", "mysql+named", "mariadb+named"];

/// The stores this build has, by URL scheme, and the features that would bring the others.
///
/// Add a store of your own with [`Registry::with`].
#[must_use]
pub fn registry() -> Registry {
    let registry = Registry::new();
    #[cfg(feature = "sqlite")]
    let registry = registry.with(distlock_sql::sqlite::driver());
    #[cfg(not(feature = "sqlite"))]
    let registry = registry.switched_off(&["sqlite"], "sqlite", "building it takes a C compiler");
    #[cfg(feature = "redis")]
    let registry = registry.with(distlock_redis::driver()).with(distlock_redis::redlock_driver());
    #[cfg(not(feature = "redis"))]
    let registry = registry.switched_off(REDIS, "redis", "");
    #[cfg(feature = "etcd")]
    let registry = registry.with(distlock_etcd::driver());
    #[cfg(not(feature = "etcd"))]
    let registry = registry.switched_off(
        &["etcd", "etcds"],
        "etcd",
        "building it takes protoc and its include files (on Debian: protobuf-compiler libprotobuf-dev)",
    );
    #[cfg(feature = "postgres")]
    let registry =
        registry.with(distlock_sql::postgres::driver()).with(distlock_sql::postgres::advisory::driver());
    #[cfg(not(feature = "postgres"))]
    let registry = registry.switched_off(POSTGRES, "postgres", "");
    #[cfg(feature = "mysql")]
    let registry = registry.with(distlock_sql::mysql::driver()).with(distlock_sql::mysql::named::driver());
    #[cfg(not(feature = "mysql"))]
    let registry = registry.switched_off(MYSQL, "mysql", "");
    #[cfg(feature = "zk")]
    let registry = registry.with(distlock_zk::driver());
    #[cfg(not(feature = "zk"))]
    let registry = registry.switched_off(&["zk", "zks"], "zk", "");
    registry
}

/// Connects to the store at `url`: `memory:`, or what this build's features bring.
///
/// # Errors
/// `InvalidUrl`, `InvalidOptions` or `FeatureDisabled` before any I/O, each with what to write
/// instead; the store's errors.
///
/// # Cancel safety
/// May be dropped at any point.
pub async fn connect(url: &str) -> Result<LockClient> {
    registry().connect(url).await
}

/// Connects to the store at `url` with these client options; the URL's own options win.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// May be dropped at any point.
pub async fn connect_with(url: &str, options: ClientOptions) -> Result<LockClient> {
    registry().connect_with(url, options).await
}
