//! Looking at a client from outside: its events, and its store's health.

use std::time::Duration;

use super::LockClient;
use super::inner::shut_down;
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

    /// Asks the store how it is, within 5 s: its version, and what an operator should change. Whether to send it work is
    /// what [`LockClient::health`] says.
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn probe(&self) -> Result<Health> {
        self.ask(Duration::from_secs(5)).await
    }

    /// Whether this client is of use now: it was not shut down, and the store answers within 2 s. For a readiness endpoint,
    /// which is asked every few seconds: each call asks the store. What it warns of is for an operator, and no reason to
    /// take no work.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use distlock_core::{LockClient, MemoryBackend};
    ///
    /// /// Status and body of `GET /ready`.
    /// async fn ready(client: &LockClient) -> (u16, String) {
    ///     match client.health().await {
    ///         Ok(health) => (200, format!("the store answered within {:?}", health.round_trip)),
    ///         Err(error) => (503, error.to_string()),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let client = LockClient::new(Arc::new(MemoryBackend::new()));
    /// assert_eq!(ready(&client).await.0, 200);
    /// client.shutdown(std::time::Duration::from_secs(1)).await;
    /// assert_eq!(ready(&client).await.0, 503);
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Shutdown`](crate::ErrorKind::Shutdown) after a shutdown; `Unavailable` if no answer came; else the
    /// store's errors. Their text names the store and never a password.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn health(&self) -> Result<Health> {
        if self.inner.is_shut_down() {
            return Err(shut_down().on_backend(self.info().name));
        }
        self.ask(Duration::from_secs(2)).await
    }

    async fn ask(&self, limit: Duration) -> Result<Health> {
        bounded(&self.inner.timers, limit, self.inner.backend.probe())
            .await
            .map_err(|error| error.on_backend(self.info().name).in_operation(Operation::Probe))
    }
}
