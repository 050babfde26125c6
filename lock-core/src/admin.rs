//! Looking at locks and taking them away.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::outcome::Holder;

/// What operators do. Optional: see [`Supports::admin`](crate::Supports).
#[async_trait]
pub trait LockAdmin: Debug + Send + Sync {
    /// The record of one lock, or `None` if the store has none. A lock whose lease is over shows no holder.
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>>;

    /// Held or waited-for locks whose key starts with `prefix`, in byte order of their keys, at most
    /// `limit` of them, from the first key after `after` on.
    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>>;

    /// Takes the lock from whoever holds it, and says from whom.
    ///
    /// - The next grant's token is higher than the victim's.
    /// - The victim is not stopped: it may run until its own `valid_until`, and learns of it at its
    ///   next renewal.
    /// - A record that is damaged or not ours is replaced.
    /// - Waiters keep their places.
    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>>;

    /// Makes every later grant of the store carry a token above `floor`: for the day when it is
    /// restored from a backup. Kept in the store, and never lowered.
    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()>;
}

/// One lock as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockRecord {
    /// The lock.
    pub key: LockKey,
    /// Who holds it: nobody, one, or, for shared modes, several.
    pub holders: Vec<Holder>,
    /// How many wait for it in the store, if the store knows.
    pub waiters: Option<u64>,
    /// The highest token granted so far, if the store keeps it.
    pub last_token: Option<FencingToken>,
}

impl LockRecord {
    /// The record of `key`, held by nobody.
    #[must_use]
    pub const fn new(key: LockKey) -> Self {
        Self { key, holders: Vec::new(), waiters: None, last_token: None }
    }

    /// Adds a holder.
    #[must_use]
    pub fn holder(mut self, holder: Holder) -> Self {
        self.last_token = self.last_token.max(Some(holder.token));
        self.holders.push(holder);
        self
    }

    /// Says how many wait.
    #[must_use]
    pub const fn waiters(mut self, waiters: u64) -> Self {
        self.waiters = Some(waiters);
        self
    }

    /// Says what the highest token so far is.
    #[must_use]
    pub const fn last_token(mut self, token: FencingToken) -> Self {
        self.last_token = Some(token);
        self
    }
}
