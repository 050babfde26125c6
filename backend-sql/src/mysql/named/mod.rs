//! Named locks (`GET_LOCK`): locks that MySQL and MariaDB keep in memory for a session. One connection for each
//! lock that is held.
//!
//! - **The server frees a lock when its session ends**: at once when the program ends or its connection is
//!   closed, and when it has heard nothing for a ttl and up to two seconds (`wait_timeout`).
//! - **A session that the server ends takes its lock along**: by a restart, a failover, an operator, something
//!   that closes connections on the way. Somebody else may have the lock before this program knows. A lock that has been
//!   held for 50 ms is listened for: its holder is told as soon as the end of the connection arrives. A network that says
//!   nothing is found when the lock counts as lost, at the end of its ttl. Fencing tokens keep the data safe meanwhile.
//! - **A lock that is listened for sleeps at the server**: the driver hears nothing from a connection on which nothing is
//!   asked, so the session waits for another lock, which one more connection holds for all sessions of this program. It
//!   wakes every 250 ms (ttl/10 if that is less; every second on MySQL) to show that it lives. Renewing it and giving it back
//!   wake it first, which takes one round trip more; 250 ms (a second on MySQL) if the other connection does not answer. While the server
//!   refuses that connection, each session is asked every 250 ms (ttl/10 if that is less), and a loss is known that much later.
//! - **Tokens** are drawn from a row in the table `NAME_sessions` while the lock is held.
//! - **Names** of at most 64 letters are made of 240 bits of the SHA-256 of database, table and key, so keys never share a
//!   lock.
//! - Not replicated: a node of a Galera cluster is refused.

mod session;
mod sleeper;
mod watcher;
mod watching;

use std::sync::Arc;

use distlock_core::{BackendInfo, Driver, Error, LockBackend, Operation, Result, StoreUrl, UrlOption};
use sqlx::MySql;

use crate::server::{self, ServerConfig, SessionDialect};

pub use crate::server::SessionLocks;

/// The URL schemes of this backend.
pub const SCHEMES: &[&str] = &["mysql+named", "mariadb+named"];

/// The URL options this backend takes.
pub const URL_OPTIONS: &[UrlOption] = server::URL_OPTIONS;

/// Connects, and creates the table of tokens if it is missing.
///
/// # Errors
/// As [`mysql::connect`](super::connect), and `Misconfigured` if a pooler stands in between that hands
/// sessions around.
///
/// # Cancel safety
/// May be dropped at any point.
pub async fn connect(config: ServerConfig) -> Result<SessionLocks<MySql>> {
    server::connect_sessions::<MySql>(config).await.map_err(connecting)
}

/// Connects to the server that a URL names, and takes this backend's options out of it.
///
/// # Errors
/// `InvalidUrl` as with [`ServerConfig::from_url`], and as [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn from_url(url: &mut StoreUrl) -> Result<SessionLocks<MySql>> {
    connect(ServerConfig::from_url(url)?).await
}

/// What a store of this kind promises and can do, with the default number of connections.
#[must_use]
pub fn describe() -> BackendInfo {
    server::describe_sessions(MySql::SESSION_BACKEND, ServerConfig::default().connections)
}

/// This kind of store, for a [`Registry`](distlock_core::Registry).
#[must_use]
pub fn driver() -> Driver {
    Driver::new(SCHEMES, URL_OPTIONS, |mut url| async move {
        Ok(Arc::new(from_url(&mut url).await?) as Arc<dyn LockBackend>)
    })
}

fn connecting(error: Error) -> Error {
    error.on_backend(MySql::SESSION_BACKEND).in_operation(Operation::Connect)
}
