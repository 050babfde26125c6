//! The store: statements and where they are sent.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Clock, Result, Timers};

use super::connections::Lane;
use super::dialect::Then;
use super::lease::Together;
use super::statement::{Answer, Statement};
use super::statements::Statements;
use super::{Calls, schema};

/// The store: statements and where they are sent.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) calls: Calls,
    pub(crate) sql: Statements,
    /// Where releases are announced, on servers that can.
    pub(crate) channel: String,
    pub(crate) may_create: bool,
    /// Whether the server can change several locks' rows by one statement and say which it did.
    pub(crate) gathers: bool,
    pub(crate) acquiring: Together,
    pub(crate) releasing: Together,
    pub(crate) timers: Timers,
    pub(crate) response_timeout: Duration,
}

impl Store {
    /// Runs one statement. If the tables have gone and may be created, they are.
    pub(crate) async fn run(&self, lane: Lane, statement: Statement) -> Result<Answer> {
        match Arc::clone(&self.calls).run(lane, statement.clone()).await {
            Err(trouble) if trouble.then == Then::Create && self.may_create => {
                schema::create(self).await?;
                Ok(Arc::clone(&self.calls).run(lane, statement).await?)
            }
            answer => Ok(answer?),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.calls.clock()
    }
}
