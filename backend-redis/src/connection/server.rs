//! One server.

use async_trait::async_trait;
use redis::{Cmd, Pipeline, Value};

use super::single::Single;
use super::subscription::{Plain, Subscription};
use super::{Failure, Link, Opener, Pushes};
use crate::names::Names;

/// One server: a connection for commands, and one beside it for those that make the server wait.
/// Each is opened when it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    opener: Opener,
    commands: Single,
    aside: Single,
}

impl Server {
    pub(crate) fn new(opener: Opener) -> Self {
        Self { commands: Single::new(opener.clone()), aside: Single::new(opener.clone()), opener }
    }

    /// The connection for commands.
    pub(super) const fn commands(&self) -> &Single {
        &self.commands
    }

    /// The connection for commands that make the server wait.
    pub(super) const fn aside(&self) -> &Single {
        &self.aside
    }

    pub(super) const fn opener(&self) -> &Opener {
        &self.opener
    }
}

#[async_trait]
impl Link for Server {
    async fn send(&self, command: &Cmd, _key: Option<&[u8]>) -> Result<Value, Failure> {
        self.commands.ready().await?.send(command).await
    }

    async fn send_aside(&self, commands: &Pipeline, _key: &[u8]) -> Result<Vec<Value>, Failure> {
        self.aside.ready().await?.send_all(commands).await
    }

    async fn subscribe(&self, names: &Names, pushes: Pushes) -> Result<Box<dyn Subscription>, Failure> {
        self.commands.check_open()?;
        Ok(Box::new(Plain::open(&self.opener, names, pushes).await?))
    }

    fn close(&self) {
        self.commands.close();
        self.aside.close();
    }
}
