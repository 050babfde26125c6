//! Locks in MySQL or MariaDB, as rows of a table with a time to live.

mod connecting;
mod dialect;
mod errors;
mod findings;
pub mod named;
mod statements;

use std::sync::Arc;

use distlock_core::{BackendInfo, Driver, Error, LockBackend, Operation, Result, StoreUrl, UrlOption};
use sqlx::{MySql, MySqlPool};

use crate::server::{self, Dialect};

pub use crate::fence::{FenceTable, TokenColumn};
pub use crate::server::{LeaseRows, ServerConfig};

/// The URL schemes of this backend.
pub const SCHEMES: &[&str] = &["mysql", "mariadb"];

/// The URL options this backend takes.
pub const URL_OPTIONS: &[UrlOption] = server::URL_OPTIONS;

/// Connects, and creates the tables if they are missing.
///
/// # Errors
/// - `InvalidOptions`: an option is out of range, or two contradict each other; no database is named.
/// - `FeatureDisabled`: encryption is asked for, and the feature `tls` is off.
/// - `Unavailable`: the server can't be reached, or takes no writes.
/// - `PermissionDenied`: it refuses the credentials, or the right to use the tables.
/// - `Misconfigured`: there is no such database, the tables are missing, older or newer than this
///   version's, or the server is a node of a Galera cluster.
/// - `Overloaded`: the server has no connection left.
///
/// # Cancel safety
/// May be dropped at any point.
pub async fn connect(config: ServerConfig) -> Result<LeaseRows> {
    server::connect::<MySql>(config).await.map_err(connecting)
}

/// Connects to the server that a URL names, and takes this backend's options out of it.
///
/// # Errors
/// `InvalidUrl` as with [`ServerConfig::from_url`], and as [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn from_url(url: &mut StoreUrl) -> Result<LeaseRows> {
    connect(ServerConfig::from_url(url)?).await
}

/// Takes connections for statements from the application's pool. Two of our own stand beside it, for
/// renewing and unlocking while the pool has none left; they are opened when they are needed, where the
/// pool's are.
///
/// Of `config`, `table`, `create`, time-outs, `poll` and `keep_idle` count. The pool's sessions should
/// have a short `innodb_lock_wait_timeout`, and the isolation level READ COMMITTED, under which
/// contenders seldom lock each other's rows. A pool whose connections are closed by the server while
/// they lie idle had better test them (`test_before_acquire`).
///
/// Before each use a connection is asked whether a transaction was left open on it, since a grant in there would
/// last as long as nobody rolls it back: one round trip. Such a connection is closed, and one without
/// autocommit is refused (`Misconfigured`).
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn from_pool(pool: MySqlPool, config: ServerConfig) -> Result<LeaseRows> {
    server::from_pool::<MySql>(pool, config).await.map_err(connecting)
}

/// The statements that create the tables, with what is missing of them alone.
///
/// # Errors
/// `InvalidOptions`: an option is out of range.
pub fn schema(config: &ServerConfig) -> Result<String> {
    server::schema::<MySql>(config)
}

/// Creates what is missing of the tables, whatever `create` says. Several programs may do so at once.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// May be dropped at any point; what was begun is finished or rolled back.
pub async fn create_schema(config: ServerConfig) -> Result<()> {
    server::create_schema::<MySql>(config).await.map_err(connecting)
}

/// The statements by name, for tests that look at how the server carries them out.
#[doc(hidden)]
pub fn statements(config: &ServerConfig) -> Vec<(&'static str, String)> {
    server::statement_texts::<MySql>(config)
}

/// What every MySQL or MariaDB store promises and can do.
#[must_use]
pub fn describe() -> BackendInfo {
    server::describe(MySql::BACKEND, MySql::PUSHES)
}

/// This kind of store, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, URL_OPTIONS, |mut url| async move {
        Ok(Arc::new(from_url(&mut url).await?) as Arc<dyn LockBackend>)
    })
}

fn connecting(error: Error) -> Error {
    error.on_backend(MySql::BACKEND).in_operation(Operation::Connect)
}
