//! Advisory locks: locks that PostgreSQL keeps in memory for a session or a transaction.
//!
//! Those of transactions are [`lock_in_transaction`]. Those of sessions are a backend like others, which keeps
//! one connection for each lock that is held.
//!
//! # What locks of sessions promise
//! - **The server frees a lock when its session ends**: at once when the program ends or its connection is
//!   closed, and when it has heard nothing for a ttl (`idle_session_timeout`).
//! - **A session that the server ends takes its lock along**: by a restart, a failover, an operator, something
//!   that closes connections on the way. Somebody else may have the lock before this program knows. A lock that has been held
//!   for 50 ms is listened for: its holder is told as soon as the end of the connection arrives. A network that says
//!   nothing is found by asking each session every 250 ms (ttl/10 if that is less), and the lock counts as lost at the
//!   end of its ttl at the latest. Fencing tokens keep the data safe meanwhile.
//! - **Tokens** are drawn from a row in the table `NAME_sessions` while the lock is held, in the same statement.
//! - **Numbers.** The server numbers locks with 64 bits: the beginning of the SHA-256 of the table's name, a zero byte
//!   and the key. The row bears the whole key; a second key with the same number is refused with
//!   `Misconfigured`, it never shares the lock. Stores in several schemas with the same table name share
//!   numbers, so give their tables different names.
//! - Needs PostgreSQL 14.

mod heard;
mod number;
mod session;
mod transaction;

use std::sync::Arc;

use distlock_core::{BackendInfo, Driver, Error, LockBackend, Operation, Result, StoreUrl, UrlOption};
use sqlx::Postgres;

use crate::server::{self, ServerConfig, SessionDialect};

pub use crate::server::SessionLocks;
pub use transaction::{lock_in_transaction, try_lock_in_transaction};

/// The URL schemes of this backend.
pub const SCHEMES: &[&str] = &["postgres+advisory", "postgresql+advisory"];

/// The URL options this backend takes.
pub const URL_OPTIONS: &[UrlOption] = server::URL_OPTIONS;

/// Connects, and creates the table of tokens if it is missing.
///
/// # Errors
/// As [`postgres::connect`](super::connect), and `Misconfigured` if a pooler stands in between that hands
/// sessions around.
///
/// # Cancel safety
/// May be dropped at any point.
pub async fn connect(config: ServerConfig) -> Result<SessionLocks<Postgres>> {
    server::connect_sessions::<Postgres>(config).await.map_err(connecting)
}

/// Connects to the server that a URL names, and takes this backend's options out of it.
///
/// # Errors
/// `InvalidUrl` as with [`ServerConfig::from_url`], and as [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn from_url(url: &mut StoreUrl) -> Result<SessionLocks<Postgres>> {
    connect(ServerConfig::from_url(url)?).await
}

/// What a store of this kind promises and can do, with the default number of connections.
#[must_use]
pub fn describe() -> BackendInfo {
    server::describe_sessions(Postgres::SESSION_BACKEND, ServerConfig::default().connections)
}

/// This kind of store, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, URL_OPTIONS, |mut url| async move {
        Ok(Arc::new(from_url(&mut url).await?) as Arc<dyn LockBackend>)
    })
}

fn connecting(error: Error) -> Error {
    error.on_backend(Postgres::SESSION_BACKEND).in_operation(Operation::Connect)
}
