//! One owner's wish for one key.

use crate::key::LockKey;
use crate::owner::OwnerId;

/// One attempt's identity: the key it wants and the owner it would hold it as.
///
/// Minted before the first byte is sent, so the same value serves to retry the attempt, to release
/// the lock, and to withdraw an attempt of which nobody knows how far it got.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub key: LockKey,
    /// This attempt.
    pub owner: OwnerId,
}

impl Claim {
    /// The claim of `owner` to `key`.
    #[must_use]
    pub const fn new(key: LockKey, owner: OwnerId) -> Self {
        Self { key, owner }
    }

    /// A new attempt at `key`, with a fresh random owner.
    #[must_use]
    pub fn mint(key: LockKey) -> Self {
        Self { key, owner: OwnerId::random() }
    }
}
