//! Expected results, as values.

use std::fmt;
use std::time::Duration;

use crate::clock::Instant;
use crate::fencing::FencingToken;
use crate::lease::Lease;
use crate::metadata::Metadata;
use crate::owner::OwnerId;

/// The outcome of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a new outcome must break every caller")]
pub enum TryLock {
    /// The lock is held by this claim.
    Acquired(Lease),
    /// Somebody else holds it, or waits for it in front of this claim.
    Busy(Busy),
}

/// What a busy store tells a waiter. Every part is a hint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Busy {
    /// When the lock becomes free at the latest, if its holder dies now.
    pub free_in: Option<Duration>,
    /// Who holds it.
    pub holder: Option<Holder>,
    /// Whether the caller has a place in the store's queue and another waiter stands in front of it, so
    /// that the holder's end does not make the lock the caller's.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub waiter_ahead: bool,
    /// The store's state at the attempt, so that a release after it can't be missed.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub cursor: Cursor,
    /// Another request of the same attempt may still be on its way to the store: see [`Busy::in_doubt`].
    #[cfg_attr(feature = "serde", serde(skip))]
    pub is_doubtful: bool,
}

impl Busy {
    /// Busy, with nothing known.
    #[must_use]
    pub fn unknown() -> Self {
        Self::default()
    }

    /// Busy by `holder`, for at most `free_in` more unless renewed.
    #[must_use]
    pub const fn by(holder: Holder, free_in: Duration) -> Self {
        Self {
            free_in: Some(free_in),
            holder: Some(holder),
            waiter_ahead: false,
            cursor: Cursor(0),
            is_doubtful: false,
        }
    }

    /// Says that the backend sent the request more than once, and that not every one of them was answered. A client
    /// that gives up then withdraws the claim.
    #[must_use]
    pub const fn in_doubt(mut self) -> Self {
        self.is_doubtful = true;
        self
    }

    /// Adds the store's state at the attempt.
    #[must_use]
    pub const fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = cursor;
        self
    }
}

/// A store's state at the time of an attempt (a revision, a notification counter, a version): a wait
/// that starts from it also sees what happened since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an opaque number; only its backend reads it")]
pub struct Cursor(pub u64);

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// The attempt that holds it.
    pub owner: OwnerId,
    /// Its fencing token.
    pub token: FencingToken,
    /// How long the lock stays with it unless renewed.
    pub expires_in: Option<Duration>,
    /// What the holder says about itself.
    pub metadata: Metadata,
}

impl Holder {
    /// The holder `owner`, with its token.
    #[must_use]
    pub const fn new(owner: OwnerId, token: FencingToken) -> Self {
        Self { owner, token, expires_in: None, metadata: Metadata::NONE }
    }

    /// How long the lock stays with it unless renewed.
    #[must_use]
    pub const fn expires_in(mut self, left: Duration) -> Self {
        self.expires_in = Some(left);
        self
    }

    /// What the holder says about itself.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// The outcome of a renewal that the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a new outcome must break every caller")]
pub enum Renewal {
    /// The lease goes on.
    Renewed {
        /// Until when the holder may rely on it.
        valid_until: Instant,
    },
    /// The lease is over, and stays so.
    Lost(LostReason),
}

/// The outcome of a release that the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[expect(clippy::exhaustive_enums, reason = "a new outcome must break every caller")]
pub enum Release {
    /// The lock was held by this claim and is free now.
    Released,
    /// It was not held by this claim; nothing changed for whoever holds it.
    NotHeld(LostReason),
}

/// Why a lock is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum LostReason {
    /// Its time ran out, or its record is gone.
    Expired,
    /// Another owner holds it.
    Stolen,
    /// The store's session it belonged to ended.
    SessionClosed,
    /// Its time ran out while the store could not be reached.
    Unreachable,
    /// Its time ran out while the store refused to renew it.
    Denied,
    /// Its time ran out after the longest hold that its holder allowed itself.
    MaxHold,
    /// The client was shut down.
    Shutdown,
}

impl LostReason {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 7] = [
        Self::Expired,
        Self::Stolen,
        Self::SessionClosed,
        Self::Unreachable,
        Self::Denied,
        Self::MaxHold,
        Self::Shutdown,
    ];

    /// The reason as a word, as it stands in spans, metrics and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Stolen => "stolen",
            Self::SessionClosed => "session-closed",
            Self::Unreachable => "unreachable",
            Self::Denied => "denied",
            Self::MaxHold => "max-hold",
            Self::Shutdown => "shutdown",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its time ran out, or its record was removed",
            Self::Stolen => "another owner holds it",
            Self::SessionClosed => "the store ended its session",
            Self::Unreachable => "its time ran out while the store could not be reached",
            Self::Denied => "its time ran out while the store refused to renew it",
            Self::MaxHold => "it reached its longest allowed hold",
            Self::Shutdown => "the client was shut down",
        })
    }
}
