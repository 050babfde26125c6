//! What happens to the locks of a client, for those who want to follow it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::clock::Instant;
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::outcome::LostReason;
use crate::owner::OwnerId;

/// Something that happened to a lock of a client; see [`LockClient::events`](crate::LockClient::events).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockEvent {
    /// The lock's key, without the client's namespace.
    pub key: LockKey,
    /// The attempt that holds the lock, or held it.
    pub owner: OwnerId,
    /// The grant's fencing token.
    pub token: FencingToken,
    /// When it happened, on the client's [clock](crate::LockClient::clock).
    pub at: Instant,
    /// What happened.
    pub change: LockChange,
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockChange {
    /// The store granted it.
    Granted,
    /// The store prolonged it.
    Renewed {
        /// Until when it may be relied on now.
        valid_until: Instant,
    },
    /// It is still held, but the store has not confirmed it for half of the ttl: renewals fail, or there are none.
    Jeopardy {
        /// When it will be lost unless the store confirms it before.
        valid_until: Instant,
    },
    /// It is not held any more.
    Lost(LostReason),
    /// Its guard was given back: unlocked or dropped. The store may not have heard of it yet.
    Released,
    /// Its guard was turned into a lease, which this client neither renews nor releases.
    Detached,
    /// A call of the same client waits for it, and it was held for all of that time, a whole ttl at least. One task that
    /// waits for its own lock waits for ever. Owner and token are the holder's. Once for each call that waits.
    SelfWait {
        /// How long the call has waited.
        waited: Duration,
    },
}

/// Follows what happens to the locks of one client, from the moment on in which it was made.
///
/// The client keeps the last 1024 events for it. Who reads more slowly than they come misses the oldest, and is told how
/// many. Locking never waits for a reader.
pub struct Events {
    receiver: broadcast::Receiver<LockEvent>,
    listeners: Arc<AtomicUsize>,
}

/// So many events were overwritten before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} events came faster than they were read, and are gone")]
#[non_exhaustive]
pub struct Missed {
    /// The number of events.
    pub count: u64,
}

impl Events {
    pub(crate) fn of(sender: &broadcast::Sender<LockEvent>, listeners: &Arc<AtomicUsize>) -> Self {
        listeners.fetch_add(1, Ordering::Relaxed);
        Self { receiver: sender.subscribe(), listeners: Arc::clone(listeners) }
    }

    /// The next event, or how many were missed; `None` when the client is gone with all its guards and views.
    ///
    /// # Cancel safety
    /// May be dropped at any point: no event is lost by that.
    pub async fn next(&mut self) -> Option<Result<LockEvent, Missed>> {
        match self.receiver.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(RecvError::Lagged(count)) => Some(Err(Missed { count })),
            Err(RecvError::Closed) => None,
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("unread", &self.receiver.len()).finish_non_exhaustive()
    }
}
