//! A few connections that lanes share.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many as the backends for database servers have by default.
pub(super) const CONNECTIONS: usize = 8;

/// A few connections that lanes share, each for as long as it takes a lock and gives it back.
#[derive(Debug)]
pub(super) struct Connections<C> {
    idle: Arc<Mutex<Vec<C>>>,
    permits: Arc<Semaphore>,
}

/// One of them in use.
#[derive(Debug)]
pub(super) struct Used<C> {
    pub(super) connection: C,
    _permit: OwnedSemaphorePermit,
}

impl<C> Connections<C> {
    pub(super) fn new(idle: Vec<C>) -> Self {
        Self { permits: Arc::new(Semaphore::new(idle.len())), idle: Arc::new(Mutex::new(idle)) }
    }

    pub(super) fn share(&self) -> Self {
        Self { idle: Arc::clone(&self.idle), permits: Arc::clone(&self.permits) }
    }

    /// `None` if one was lost with an error.
    pub(super) async fn take(&self) -> Option<Used<C>> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Used { connection, _permit: permit })
    }

    pub(super) fn put(&self, used: Used<C>) {
        let Used { connection, _permit } = used;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}
