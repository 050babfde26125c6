//! Kinds of errors, and whether they may have changed anything.

/// The kinds of error a caller may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key is empty, too long or not readable. Nothing was sent.
    InvalidKey,
    /// An option is out of range, or two contradict each other. Nothing was sent.
    InvalidOptions,
    /// The URL can't be read, or has an unknown scheme or option. Nothing was sent.
    InvalidUrl,
    /// The store can't be used the way it is set up; the text says what to change.
    Misconfigured,
    /// The scheme is known, but its cargo feature is off.
    FeatureDisabled,
    /// The backend can't do that, and says so in its [`Supports`](crate::Supports).
    Unsupported,
    /// The store refused the credentials or the right to do that.
    PermissionDenied,
    /// The store can't be reached, did not answer in time, or can't serve now.
    Unavailable,
    /// A limit of ours or of the store's was reached (waiters, connections).
    Overloaded,
    /// Somebody else held the lock until the caller's patience ended.
    WaitTimeout,
    /// The grant came so late that nothing of its ttl was left; it was given back.
    TooSlow,
    /// The grant did not arrive on as many replicas as the caller wants; it was given back.
    NotReplicated,
    /// The lock was held and is not held any more.
    Lost,
    /// The store's record is not one of ours, or is damaged.
    Corrupt,
    /// The client was shut down.
    Shutdown,
    /// Anything else.
    Other,
}

impl ErrorKind {
    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::Overloaded | Self::TooSlow | Self::NotReplicated | Self::WaitTimeout
        )
    }
}

/// Whether a failed operation may have changed the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Effect {
    /// It certainly did not.
    None,
    /// It may have, now or still later.
    Unknown,
}
