//! A place in the line for a key.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Called, Lines, Turns};
use crate::error::{Error, ErrorKind, Result};
use crate::key::LockKey;

/// A place in line.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) turns: Arc<Turns>,
    pub(super) key: LockKey,
    pub(super) ticket: u64,
    pub(super) called: oneshot::Receiver<Called>,
}

impl Place {
    /// Waits for the turn.
    ///
    /// # Cancel safety
    /// Dropping it gives up the place.
    pub(crate) async fn wait(&mut self) -> Result<Called> {
        (&mut self.called).await.map_err(|_| Error::new(ErrorKind::Shutdown, "the client was shut down"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.turns.lines();
        let Lines { by_key, waiters, .. } = &mut *lines;
        if let Some(line) = by_key.get_mut(&self.key)
            && line.waiting.remove(&self.ticket).is_some()
        {
            *waiters -= 1;
        }
        // A turn that was sent but not received passes itself on when `called` drops, after this lock.
    }
}
