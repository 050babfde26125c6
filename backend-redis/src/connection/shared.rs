//! A connection that belongs to the application.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::{Cmd, ErrorKind, RedisError, Value};

use super::{Failure, Link, Opener, Pushes};

/// The application's own connection manager for commands, and a connection of ours to listen on.
pub(crate) struct Shared {
    manager: ConnectionManager,
    opener: Opener,
    is_closed: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("opener", &self.opener).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) const fn new(manager: ConnectionManager, opener: Opener) -> Self {
        Self { manager, opener, is_closed: AtomicBool::new(false) }
    }

    fn check_open(&self) -> Result<(), Failure> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Failure::unsent((ErrorKind::Client, crate::error::CLOSED).into()));
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
            () = tokio::time::sleep(self.opener.response_timeout()) => {
                Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut)))
            }
        };
        result.map_err(|error| {
            if error.is_connection_refusal() { Failure::unsent(error) } else { Failure::after_send(error) }
        })
    }

    async fn listen(&self, pushes: Pushes) -> Result<MultiplexedConnection, Failure> {
        self.check_open()?;
        self.opener.listen(pushes).await.map_err(Failure::unsent)
    }

    fn close(&self) {
        // The manager goes on to serve the application.
        self.is_closed.store(true, Ordering::Release);
    }
}
