//! The way to the server or servers.

mod authentication;
mod call;
mod cluster;
mod keeper;
mod open;
mod outstanding;
mod retry;
mod sentinel;
mod server;
mod shared;
mod single;
mod subscription;
pub(crate) mod tls;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::Effect;
use redis::{Cmd, ErrorKind, Pipeline, PushInfo, RedisError, Value};

use crate::names::Names;

pub(crate) use cluster::Cluster;
pub(crate) use open::Opener;
pub(crate) use retry::within;
pub(crate) use sentinel::Sentinel;
pub(crate) use server::Server;
pub(crate) use shared::Shared;
pub(crate) use subscription::Subscription;

/// The way to a store: one server, the master that Sentinels name, or a Cluster.
#[async_trait]
pub(crate) trait Link: Debug + Send + Sync {
    /// Sends one command to the server that has `key`, or to any, and waits for its reply. Bounded
    /// in time; may be dropped at any point, and then leaves nothing worse than a reply that nobody reads.
    async fn send(&self, command: &Cmd, key: Option<&[u8]>) -> Result<Value, Failure>;

    /// Sends commands in a row to the server that has `key`, on a connection beside that of `send`:
    /// one of them may make the server wait. Errors of single commands are values. As `send` otherwise.
    async fn send_aside(&self, commands: &Pipeline, key: &[u8]) -> Result<Vec<Value>, Failure>;

    /// Listens where releases are announced; what comes goes to `pushes`.
    async fn subscribe(&self, names: &Names, pushes: Pushes) -> Result<Box<dyn Subscription>, Failure>;

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

    /// The server that has `key`, as far as is known.
    fn home(&self, _key: &[u8]) -> Node {
        Node::default()
    }

    /// Closes the connections.
    fn close(&self);
}

/// A server, by its address; empty where there is only one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
            _ if retry::was_refused_in_a_script(&error) => Effect::None,
            _ => Effect::Unknown,
        };
        Self { error, effect }
    }

    /// The backend was closed.
    pub(crate) fn closed() -> Self {
        Self::unsent(closed())
    }

    /// Another server took over while the command was under way; what the old one says does not count.
    pub(crate) fn taken_over() -> Self {
        let text = "another server took over while the command was under way";
        Self {
            error: std::io::Error::new(std::io::ErrorKind::ConnectionAborted, text).into(),
            effect: Effect::Unknown,
        }
    }
}

fn closed() -> RedisError {
    (ErrorKind::Client, crate::error::CLOSED).into()
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
