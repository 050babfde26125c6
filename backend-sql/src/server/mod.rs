//! What the backends for database servers share: everything but the statements, how they are sent, and
//! what errors mean.

mod calls;
mod config;
mod connections;
mod dialect;
mod error;
mod floor;
mod keys;
mod lease;
mod probe;
mod schema;
mod session;
mod statement;
pub(crate) mod statements;
mod store;
mod table;
mod waiting;

use std::sync::Arc;

use distlock_core::{
    BackendInfo, Exclusion, ExpiryClock, Fairness, FenceScope, Guarantees, Result, Supports,
};
use sqlx::Pool;

pub use config::ServerConfig;
pub use lease::LeaseRows;
pub use session::SessionLocks;

pub(crate) use config::URL_OPTIONS;
pub(crate) use connections::{Connections, Line, Opener};
#[cfg(feature = "mysql")]
pub(crate) use connections::{Plain, within};
pub(crate) use dialect::{Dialect, Fitness, Given, Meaning, Standing, Then};
#[cfg(feature = "mysql")]
pub(crate) use error::exhausted;
pub(crate) use error::{Doing, Trouble, classify};
pub(crate) use probe::{Findings, KeptAs, Probing};
pub(crate) use schema::LAYOUT_VERSION;
pub(crate) use session::{
    Ear, Link, Links, SessionDialect, SessionStatements, Times, Users, connect as connect_sessions,
    describe as describe_sessions,
};
pub(crate) use statement::{Cell, Row, Statement, Template, Value};
pub(crate) use statements::{Statements, Texts};
pub(crate) use table::Tables;
pub(crate) use waiting::Listener;

/// Connects with connections of our own.
pub(crate) async fn connect<D: Dialect>(config: ServerConfig) -> Result<LeaseRows> {
    config.check()?;
    let connections = Connections::<D>::new(&config, Opener::new(&config)?);
    LeaseRows::start::<D>(config, connections).await
}

/// Connects with those of an application's pool.
pub(crate) async fn from_pool<D: Dialect>(pool: Pool<D>, config: ServerConfig) -> Result<LeaseRows> {
    config.check()?;
    let opener = Opener::like(&config, (*pool.connect_options()).clone());
    let connections = Connections::from_pool(&config, opener, pool);
    connections.warm().await?;
    LeaseRows::start::<D>(config, connections).await
}

/// The statements that create the tables.
pub(crate) fn schema<D: Dialect>(config: &ServerConfig) -> Result<String> {
    config.check()?;
    Ok(D::statements(&Tables::new(config, D::QUOTE)).create)
}

/// The statements by name, as the server gets them.
pub(crate) fn statement_texts<D: Dialect>(config: &ServerConfig) -> Vec<(&'static str, String)> {
    D::statements(&Tables::new(config, D::QUOTE)).named()
}

/// Creates what is missing of the tables.
pub(crate) async fn create_schema<D: Dialect>(config: ServerConfig) -> Result<()> {
    let rows = connect::<D>(config.create(true)).await?;
    rows.create_schema().await
}

/// What every store of this kind promises and can do.
pub(crate) fn describe(name: &'static str, push: bool) -> BackendInfo {
    let mut guarantees = Guarantees::single_node();
    guarantees.exclusion = Exclusion::Always;
    guarantees.fencing = FenceScope::Durable;
    guarantees.fairness = Fairness::None;
    guarantees.expiry = ExpiryClock::Server;
    let mut supports = Supports::NONE.batch_renew().hand_over().admin().adopt().processes();
    supports.push = push;
    BackendInfo::new(name, guarantees, supports)
}

/// As a trait object, so that what is above does not depend on the kind of server.
pub(crate) type Calls = Arc<dyn calls::Calls>;
