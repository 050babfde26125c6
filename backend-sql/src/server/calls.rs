//! What the lease rows ask of connections, whatever kind of server they lead to.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::Clock;

use super::connections::{Connections, Lane};
use super::dialect::Dialect;
use super::error::Trouble;
use super::statement::{Answer, Statement};
use super::waiting::Listener;
use crate::outlasting::Outlasting;

/// What the lease rows ask of connections, whatever kind of server they lead to.
#[async_trait]
pub(crate) trait Calls: Debug + Send + Sync {
    /// See [`Connections::run`].
    fn run(self: Arc<Self>, lane: Lane, statement: Statement) -> Outlasting<Result<Answer, Trouble>>;

    /// See [`Connections::run_script`].
    fn run_script(self: Arc<Self>, script: String) -> Outlasting<Result<(), Trouble>>;

    /// See [`Dialect::listen`].
    async fn listen(&self, channel: &str) -> Result<Box<dyn Listener>, Trouble>;

    /// How many statements were sent.
    fn sent(&self) -> u64;

    /// The clock on which answers say when they were asked for.
    fn clock(&self) -> &Clock;

    /// See [`Connections::close`].
    async fn close(&self);
}

#[async_trait]
impl<D: Dialect> Calls for Connections<D> {
    fn run(self: Arc<Self>, lane: Lane, statement: Statement) -> Outlasting<Result<Answer, Trouble>> {
        Self::run(&self, lane, statement)
    }
    fn run_script(self: Arc<Self>, script: String) -> Outlasting<Result<(), Trouble>> {
        Self::run_script(&self, script)
    }
    async fn listen(&self, channel: &str) -> Result<Box<dyn Listener>, Trouble> {
        D::listen(self.opener(), channel).await
    }
    fn sent(&self) -> u64 {
        Self::sent(self)
    }
    fn clock(&self) -> &Clock {
        &self.clock
    }
    async fn close(&self) {
        Self::close(self).await;
    }
}
