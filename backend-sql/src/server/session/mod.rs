//! Locks that the server keeps for a session.

mod admin;
mod attempt;
mod backend;
mod dialect;
mod ear;
mod held;
mod keeper;
mod link;
mod links;
mod probe;
mod slot;
mod times;

pub use backend::SessionLocks;

pub(crate) use dialect::{SessionDialect, SessionStatements};
pub(crate) use ear::Ear;
pub(crate) use link::Link;
pub(crate) use links::Links;
pub(crate) use slot::Users;
pub(crate) use times::Times;

use distlock_core::{
    BackendInfo, Exclusion, ExpiryClock, Fairness, FenceScope, Guarantees, Result, Supports,
};

use super::ServerConfig;

/// Connects, and creates the table of tokens if that is allowed.
pub(crate) async fn connect<D: SessionDialect>(config: ServerConfig) -> Result<SessionLocks<D>> {
    config.check()?;
    SessionLocks::start(config).await
}

/// What a store of this kind promises and can do with so many connections.
pub(crate) fn describe(name: &'static str, connections: u32) -> BackendInfo {
    let mut guarantees = Guarantees::single_node();
    // A session that the server ends takes its locks along, and its client may hear of that late.
    guarantees.exclusion = Exclusion::BetweenFailovers;
    guarantees.fencing = FenceScope::Durable;
    guarantees.fairness = Fairness::None;
    guarantees.expiry = ExpiryClock::Session;
    guarantees.survives_restart = false;
    guarantees.survives_failover = false;
    guarantees.survives_disconnect = false;
    guarantees.held_most = Some(connections);
    let mut supports = Supports::NONE.admin().processes();
    supports.loss_push = true;
    BackendInfo::new(name, guarantees, supports)
}
