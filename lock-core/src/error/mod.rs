//! The one error type: what went wrong, to whom, and whether it may have happened all the same.

mod kind;
mod operation;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

pub use self::kind::{Effect, ErrorKind};
pub use self::operation::Operation;
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
