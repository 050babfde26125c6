//! The way to the server or servers.

mod authentication;
mod open;
mod outstanding;
mod shared;
mod single;
pub(crate) mod tls;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::Effect;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushInfo, RedisError, Value};

pub(crate) use open::Opener;
pub(crate) use shared::Shared;
pub(crate) use single::Single;

/// The way to a store: one server, the master that Sentinels name, or a Cluster.
#[async_trait]
pub(crate) trait Link: Debug + Send + Sync {
    /// Sends one command to the server that has `key`, or to any, and waits for its reply. Bounded
    /// in time; may be dropped at any point, and then leaves nothing worse than a reply that nobody reads.
    async fn send(&self, command: &Cmd, key: Option<&[u8]>) -> Result<Value, Failure>;

    /// Opens one more connection to the server that announces releases; what it pushes goes to `pushes`.
    async fn listen(&self, pushes: Pushes) -> Result<MultiplexedConnection, Failure>;

    /// The servers that together have all keys. One, unless this is a Cluster.
    async fn nodes(&self) -> Result<Vec<Node>, Failure> {
        Ok(vec![Node::default()])
    }

    /// Sends one command that has no key to one of the [`nodes`](Link::nodes); else as [`Link::send`].
    async fn send_to(&self, _node: &Node, command: &Cmd) -> Result<Value, Failure> {
        self.send(command, None).await
    }

    /// Keys of the same number can go into one script.
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    /// Closes the connections.
    fn close(&self);
}

/// A server, by its address; empty where there is only one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) String);

/// Receives what a server sends unasked. Must not block.
pub(crate) type Pushes = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// A command that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: RedisError,
    /// Whether the command may have been carried out.
    pub(crate) effect: Effect,
}

impl Failure {
    /// Nothing was sent.
    pub(crate) const fn unsent(error: RedisError) -> Self {
        Self { error, effect: Effect::None }
    }

    /// The command was handed to a connection: what the server answered tells, silence does not.
    pub(crate) fn after_send(error: RedisError) -> Self {
        let effect = match error.code() {
            Some(code) if crate::error::REFUSALS.contains(&code) => Effect::None,
            _ => Effect::Unknown,
        };
        Self { error, effect }
    }
}
