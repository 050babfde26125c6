//! What a client asks of a backend.

use std::time::Duration;

use crate::claim::Claim;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::lease::{Lease, Margin};
use crate::metadata::Metadata;

/// One attempt at a lock, as a backend sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockRequest {
    /// Which lock, for which attempt.
    pub claim: Claim,
    /// How long the lease is to last without renewal. A wish: the backend rounds it up to its grain
    /// and clamps it to its floor, and the grant says what was given.
    pub ttl: Duration,
    /// What kind of hold is wanted.
    pub mode: Mode,
    /// Whether a busy lock puts this claim into the store's queue, if it has one. Without it the
    /// attempt is a plain try: it takes no place when busy, and passes nobody in the queue.
    pub queue: bool,
    /// What to store about the holder.
    pub metadata: Metadata,
    /// How much earlier than the store the client considers the lease over.
    pub margin: Margin,
}

impl LockRequest {
    /// A plain try for an exclusive hold of `ttl`.
    #[must_use]
    pub const fn new(claim: Claim, ttl: Duration) -> Self {
        Self {
            claim,
            ttl,
            mode: Mode::Exclusive,
            queue: false,
            metadata: Metadata::NONE,
            margin: Margin::DEFAULT,
        }
    }

    /// Whether to join the store's queue when busy.
    #[must_use]
    pub fn queue(mut self, queue: bool) -> Self {
        self.queue = queue;
        self
    }

    /// What to store about the holder.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// How much earlier than the store the client considers the lease over.
    #[must_use]
    pub const fn margin(mut self, margin: Margin) -> Self {
        self.margin = margin;
        self
    }

    /// For [`hand_over`](crate::LockBackend::hand_over): this request is for the lock of `lease`.
    ///
    /// # Errors
    /// `InvalidOptions`, with effect `None`, if it is for another key.
    pub fn require_key_of(&self, lease: &Lease) -> Result<()> {
        if self.claim.key == lease.claim.key {
            return Ok(());
        }
        let message = "a lock can only be handed over to a contender for the same key; unlock it instead";
        Err(Error::new(ErrorKind::InvalidOptions, message).with_effect(Effect::None))
    }
}

/// The kind of hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder at a time.
    #[default]
    Exclusive,
}
