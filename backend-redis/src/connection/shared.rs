//! A connection that belongs to the application.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::ConnectionManager;
use redis::{Cmd, Pipeline, Value};

use super::subscription::Subscription;
use super::{Failure, Link, Opener, Pushes, Server, timed_out};
use crate::names::Names;

/// The application's own connection manager for commands, and connections of ours for the rest.
pub(crate) struct Shared {
    manager: ConnectionManager,
    response_timeout: Duration,
    /// What the application's connection can't do goes through connections of ours.
    own: Server,
    is_closed: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(manager: ConnectionManager, opener: Opener) -> Self {
        let response_timeout = opener.response_timeout();
        Self { manager, response_timeout, own: Server::new(opener), is_closed: AtomicBool::new(false) }
    }

    fn check_open(&self) -> Result<(), Failure> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Failure::closed());
        }
        Ok(())
    }
}

#[async_trait]
impl Link for Shared {
    async fn send(&self, command: &Cmd, _key: Option<&[u8]>) -> Result<Value, Failure> {
        self.check_open()?;
        let mut manager = self.manager.clone();
        // The manager's own limit does not hold while it connects anew.
        let result = tokio::select! {
            result = command.query_async::<Value>(&mut manager) => result,
            () = tokio::time::sleep(self.response_timeout) => {
                Err(timed_out())
            }
        };
        result.map_err(|error| {
            if error.is_connection_refusal() { Failure::unsent(error) } else { Failure::after_send(error) }
        })
    }

    async fn send_aside(&self, commands: &Pipeline, key: &[u8]) -> Result<Vec<Value>, Failure> {
        self.own.send_aside(commands, key).await
    }

    async fn subscribe(&self, names: &Names, pushes: Pushes) -> Result<Box<dyn Subscription>, Failure> {
        self.own.subscribe(names, pushes).await
    }

    fn close(&self) {
        // The manager goes on to serve the application.
        self.is_closed.store(true, Ordering::Release);
        self.own.close();
    }
}
