//! The store: names, the way to the servers, and what every command passes through.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use distlock_core::{Clock, Instant, Result};
use redis::{Cmd, ErrorKind, Pipeline, ServerErrorKind, Value};

use crate::connection::{Failure, Link, Node};
use crate::error::classify;
use crate::names::Names;
use crate::prepared::Prepared;
use crate::replication::Rounds;
use crate::reply::time_of;
use crate::script::{By, Script};

/// The store: names, the way to the servers, and what every command passes through.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) link: Arc<dyn Link>,
    pub(crate) names: Names,
    pub(crate) clock: Clock,
    /// On how many replicas a grant must arrive.
    pub(crate) wait_replicas: u8,
    pub(crate) rounds: Rounds,
    sent: AtomicU64,
}

/// A script's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// Read before the request left.
    pub(crate) sent: Instant,
}

impl Store {
    pub(crate) fn new(link: Arc<dyn Link>, names: Names, wait_replicas: u8) -> Arc<Self> {
        Arc::new(Self {
            link,
            names,
            clock: Clock::system(),
            wait_replicas,
            rounds: Rounds::default(),
            sent: AtomicU64::new(0),
        })
    }

    /// Runs a script on records of one slot: one round trip where the server knows it.
    pub(crate) async fn run(&self, script: &Script, keys: &[Vec<u8>], arguments: &[&[u8]]) -> Result<Answer> {
        let key = keys.first().map(Vec::as_slice);
        self.run_command(key, |by| script.invoke(by, keys, arguments)).await
    }

    /// The same with a command that runs a script on `key` and others.
    pub(crate) async fn run_command(
        &self,
        key: Option<&[u8]>,
        command: impl Fn(By) -> Cmd,
    ) -> Result<Answer> {
        let hashed = command(By::Hash);
        let sent = self.clock.now();
        match self.send(&hashed, key).await {
            Err(failure) if is_unknown_script(&failure) => {
                let text = command(By::Text);
                let sent = self.clock.now();
                let value = self.send(&text, key).await.map_err(classify)?;
                Ok(Answer { value, sent })
            }
            result => Ok(Answer { value: result.map_err(classify)?, sent }),
        }
    }

    /// The same with what is written already, where there is one server only.
    pub(crate) async fn run_prepared(&self, prepared: &Prepared) -> Result<Value> {
        match self.send(prepared.by_hash(), None).await {
            Err(failure) if is_unknown_script(&failure) => {
                self.send(&prepared.by_text(), None).await.map_err(classify)
            }
            result => result.map_err(classify),
        }
    }

    /// Sends a command that is no script to any server.
    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value> {
        self.send(command, None).await.map_err(classify)
    }

    /// The servers that together have all keys.
    pub(crate) async fn nodes(&self) -> Result<Vec<Node>> {
        self.link.nodes().await.map_err(classify)
    }

    /// Sends a command that is no script to one server.
    pub(crate) async fn command_to(&self, node: &Node, command: &Cmd) -> Result<Value> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.link.send_to(node, command).await.map_err(classify)
    }

    /// A server's clock, in microseconds since 1970.
    pub(crate) async fn server_time(&self, node: &Node) -> Result<u64> {
        time_of(&self.command_to(node, &redis::cmd("TIME")).await?)
    }

    /// Sends commands in a row to the server that has `key`, beside everything else; errors of single
    /// commands are values.
    pub(crate) async fn aside(&self, commands: &Pipeline, key: &[u8]) -> Result<Vec<Value>> {
        self.sent.fetch_add(u64::try_from(commands.len()).unwrap_or(0), Ordering::Relaxed);
        self.link.send_aside(commands, key).await.map_err(classify)
    }

    /// How many commands were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    async fn send(&self, command: &Cmd, key: Option<&[u8]>) -> Result<Value, Failure> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.link.send(command, key).await
    }
}

fn is_unknown_script(failure: &Failure) -> bool {
    failure.error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
