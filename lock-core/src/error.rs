//! The one error type: what went wrong, to whom, and whether it may have happened all the same.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::key::LockKey;
use crate::outcome::Busy;

/// The result of a lock operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Arc<dyn StdError + Send + Sync + 'static>;

/// What went wrong, in which operation on which backend and key, and what to do about it.
///
/// A busy lock and a lock that is no longer held are values ([`TryLock::Busy`](crate::TryLock),
/// [`Release::NotHeld`](crate::Release)), not errors; trouble with the store is never reported as busy.
/// The one-line form names backend, operation and key and never shows a password or a URL with one.
#[derive(Clone, thiserror::Error)]
#[error("{0}")]
pub struct Error(#[source] Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    effect: Option<Effect>,
    operation: Option<Operation>,
    backend: Option<&'static str>,
    key: Option<LockKey>,
    message: String,
    busy: Option<Busy>,
    source: Option<Source>,
}

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
        matches!(self, Self::Unavailable | Self::Overloaded | Self::TooSlow | Self::WaitTimeout)
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

impl Error {
    /// An error of this kind. The message says what is wrong and what to do, without a final stop.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            effect: None,
            operation: None,
            backend: None,
            key: None,
            message: message.into(),
            busy: None,
            source: None,
        }))
    }

    /// States what the failed operation may have done; without it, [`Error::effect`] tells by kind.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = Some(effect);
        self
    }

    /// Names the operation, unless one is named already.
    #[must_use]
    pub fn in_operation(mut self, operation: Operation) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Names the backend, unless one is named already.
    #[must_use]
    pub fn on_backend(mut self, backend: &'static str) -> Self {
        self.0.backend.get_or_insert(backend);
        self
    }

    /// Names the key, unless one is named already.
    #[must_use]
    pub fn for_key(mut self, key: &LockKey) -> Self {
        self.0.key.get_or_insert_with(|| key.clone());
        self
    }

    /// Adds what is known of the holder, for a wait that ended in vain.
    #[must_use]
    pub fn with_busy(mut self, busy: Busy) -> Self {
        self.0.busy = Some(busy);
        self
    }

    /// Adds the error beneath.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The kind of error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable()
    }

    /// Whether the failed operation may have changed the store.
    ///
    /// ```
    /// use distlock_core::{Effect, Error, ErrorKind};
    /// assert_eq!(Error::new(ErrorKind::InvalidKey, "…").effect(), Effect::None);
    /// assert_eq!(Error::new(ErrorKind::Unavailable, "…").effect(), Effect::Unknown);
    /// ```
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect.unwrap_or(match self.0.kind {
            ErrorKind::Unavailable | ErrorKind::Other | ErrorKind::Corrupt => Effect::Unknown,
            _ => Effect::None,
        })
    }

    /// The operation that failed.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        self.0.operation
    }

    /// The backend's name.
    #[must_use]
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Option<&LockKey> {
        self.0.key.as_ref()
    }

    /// What went wrong, without backend, operation and key.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What was last seen of the holder, on [`ErrorKind::WaitTimeout`].
    #[must_use]
    pub fn busy(&self) -> Option<&Busy> {
        self.0.busy.as_ref()
    }

    /// Whether the lock stayed with somebody else until the caller's patience ended.
    ///
    /// ```
    /// use distlock_core::{Error, ErrorKind};
    /// assert!(Error::new(ErrorKind::WaitTimeout, "…").is_wait_timeout());
    /// ```
    #[must_use]
    pub fn is_wait_timeout(&self) -> bool {
        self.0.kind == ErrorKind::WaitTimeout
    }

    /// Whether the lock was lost while it was believed held.
    ///
    /// ```
    /// use distlock_core::{Error, ErrorKind};
    /// assert!(Error::new(ErrorKind::Lost, "…").is_lost());
    /// ```
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.kind == ErrorKind::Lost
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        let mut out = f.debug_struct("Error");
        out.field("kind", &inner.kind).field("effect", &self.effect());
        if let Some(operation) = inner.operation {
            out.field("operation", &operation);
        }
        if let Some(backend) = inner.backend {
            out.field("backend", &backend);
        }
        if let Some(key) = &inner.key {
            out.field("key", key);
        }
        out.field("message", &inner.message);
        if let Some(busy) = &inner.busy {
            out.field("busy", busy);
        }
        if let Some(source) = &inner.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.backend, self.operation, &self.key) {
            (Some(backend), Some(operation), Some(key)) => write!(f, "{backend} {operation} `{key}`: ")?,
            (Some(backend), Some(operation), None) => write!(f, "{backend} {operation}: ")?,
            (Some(backend), None, Some(key)) => write!(f, "{backend} `{key}`: ")?,
            (Some(backend), None, None) => write!(f, "{backend}: ")?,
            (None, Some(operation), Some(key)) => write!(f, "{operation} `{key}`: ")?,
            (None, Some(operation), None) => write!(f, "{operation}: ")?,
            (None, None, Some(key)) => write!(f, "`{key}`: ")?,
            (None, None, None) => {}
        }
        f.write_str(&self.message)?;
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Inner {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_backend_operation_and_key() {
        let error = Error::new(ErrorKind::Unavailable, "the database is locked by another program")
            .on_backend("sqlite")
            .in_operation(Operation::TryLock)
            .for_key(&LockKey::new("nightly").unwrap());
        assert_eq!(error.to_string(), "sqlite try_lock `nightly`: the database is locked by another program");
        assert!(error.is_retryable());
    }

    #[test]
    fn the_first_name_given_stays() {
        let error = Error::new(ErrorKind::Other, "x").on_backend("inner").on_backend("outer");
        assert_eq!(error.backend(), Some("inner"));
    }

    #[test]
    fn the_source_is_in_the_text_and_in_the_chain() {
        let error = Error::new(ErrorKind::Other, "can't write").caused_by(std::io::Error::other("disk full"));
        assert_eq!(error.to_string(), "can't write (disk full)");
        let mut cause = StdError::source(&error);
        while let Some(next) = cause.filter(|cause| !cause.is::<std::io::Error>()) {
            cause = next.source();
        }
        assert!(cause.is_some());
    }
}
