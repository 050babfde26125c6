//! The operations that can fail.

use std::fmt;

/// The operation in which an error arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Operation {
    /// Connecting to the store.
    Connect,
    /// One attempt at a lock.
    TryLock,
    /// Taking a lock, waiting for it if need be.
    Lock,
    /// Prolonging a lease.
    Renew,
    /// Giving a lock back.
    Unlock,
    /// Passing a lock on to the next local contender.
    HandOver,
    /// Taking over a lease that another handle or process gave away.
    Adopt,
    /// Waiting for a hint that a lock was released or lost.
    Watch,
    /// Reading one lock's record.
    Inspect,
    /// Listing locks.
    List,
    /// Taking a lock from its holder.
    ForceUnlock,
    /// Raising the lowest token the store may grant.
    RaiseTokenFloor,
    /// Checking a token at the protected resource.
    Fence,
    /// Asking the store how it is.
    Probe,
    /// Closing the client.
    Close,
}

impl Operation {
    /// The operation's name as it stands in error texts, spans and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::TryLock => "try_lock",
            Self::Lock => "lock",
            Self::Renew => "renew",
            Self::Unlock => "unlock",
            Self::HandOver => "hand_over",
            Self::Adopt => "adopt",
            Self::Watch => "watch",
            Self::Inspect => "inspect",
            Self::List => "list",
            Self::ForceUnlock => "force_unlock",
            Self::RaiseTokenFloor => "raise_token_floor",
            Self::Fence => "fence",
            Self::Probe => "probe",
            Self::Close => "close",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
