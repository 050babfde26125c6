//! One connection, and the session at its other end.

use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Instant};
use tokio::sync::OwnedSemaphorePermit;

use super::dialect::SessionDialect;
use crate::server::connections::{Line, within};
use crate::server::error::{Doing, Trouble, classify, late};
use crate::server::statement::Statement;
use crate::server::{Given, Then, Value};

/// One connection, and the session at its other end. Dropping it ends both.
pub(crate) struct Link<D: SessionDialect> {
    pub(crate) line: D::Line,
    /// The session's number at the server.
    pub(crate) id: i64,
    /// After how much idleness the server ends it, if that was set.
    pub(super) limit: Option<Duration>,
    pub(super) used: Instant,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl<D: SessionDialect> Link<D> {
    /// Runs a statement. After an error the link is of no use any more.
    pub(crate) async fn run(&mut self, statement: &Statement, limit: Duration) -> Result<Given, Trouble> {
        let running = async { D::run(self.line.connection().await?, statement).await };
        match within(limit, running).await {
            Some(Ok(given)) => Ok(given),
            Some(Err(error)) => Err(classify::<D>(error, Doing::Running)),
            None => Err(late(Doing::Running)),
        }
    }

    /// Fails if the session at the other end is another one.
    pub(crate) fn check(&self, id: i64) -> Result<(), Trouble> {
        if id == self.id { Ok(()) } else { Err(pooled()) }
    }

    /// The idle limit as a value, if it has to be set anew.
    pub(super) fn new_limit(&self, ttl: Duration) -> Option<Value> {
        (self.limit != Some(ttl)).then(|| D::idle_limit(ttl))
    }
}

/// The error behind a pooler that hands sessions around.
pub(super) fn pooled() -> Trouble {
    let message = "a connection pooler stands in between that changes sessions between transactions, where a lock of a session is lost without a word; connect to the server itself, or by a pool in session mode, or use lease rows";
    let error = Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None);
    Trouble { error, then: Then::Fail }
}
