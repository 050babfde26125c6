//! Looking at a client from outside: its events, and its store's health.

use std::time::Duration;

use super::LockClient;
use crate::error::{Operation, Result};
use crate::events::Events;
use crate::health::Health;
use crate::waiting::bounded;

impl LockClient {
    /// Follows what happens to this client's locks, from now on: grants, renewals, jeopardy, losses, releases. For logs,
    /// alarms and tests; code under a lock watches its own guard, see [`LockGuard::lost`](crate::LockGuard::lost).
    ///
    /// Each call gives a stream of its own. A slow reader misses the oldest events and is told how many; locking never
    /// waits for it. While nobody follows, nothing is kept.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use distlock_core::{LockChange, LockClient, MemoryBackend};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock_core::Result<()> {
    /// let client = LockClient::new(Arc::new(MemoryBackend::new()));
    /// let mut events = client.events();
    /// let log = tokio::spawn(async move {
    ///     let mut changes = Vec::new();
    ///     while let Some(event) = events.next().await {
    ///         match event {
    ///             Ok(event) => {
    ///                 println!("{} (token {}): {:?}", event.key, event.token, event.change);
    ///                 changes.push(event.change);
    ///             }
    ///             Err(missed) => eprintln!("{missed}"),
    ///         }
    ///     }
    ///     changes
    /// });
    /// client.lock("invoice/42").await?.unlock().await?;
    /// drop(client);
    /// assert_eq!(log.await.unwrap(), [LockChange::Granted, LockChange::Released]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn events(&self) -> Events {
        self.inner.observer.listen()
    }

    /// Asks the store how it is, within 5 s: its version, and what an operator should change.
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn probe(&self) -> Result<Health> {
        self.ask(Duration::from_secs(5)).await
    }

    async fn ask(&self, limit: Duration) -> Result<Health> {
        bounded(&self.inner.timers, limit, self.inner.backend.probe())
            .await
            .map_err(|error| error.on_backend(self.info().name).in_operation(Operation::Probe))
    }
}
