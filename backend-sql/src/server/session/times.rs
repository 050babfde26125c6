//! Until when a lock is held, and when something was last heard of its session.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::Instant;

/// A session that nothing was heard of for so long is asked, or for a tenth of the ttl if that is less.
const SILENCE_MOST: Duration = Duration::from_millis(250);

/// The times of a lock that is held.
pub(crate) struct Times(Mutex<Inner>);

#[derive(Clone, Copy)]
struct Inner {
    ttl: Duration,
    expires: Instant,
    /// When the last answered statement was sent.
    lived: Instant,
}

impl Times {
    pub(super) fn new(ttl: Duration, sent: Instant) -> Self {
        Self(Mutex::new(Inner { ttl, expires: sent.plus(ttl), lived: sent }))
    }

    /// Until when it is held if nobody renews it.
    pub(crate) fn expires(&self) -> Instant {
        self.inner().expires
    }

    pub(super) fn lived(&self) -> Instant {
        self.inner().lived
    }

    /// The longest ttl that it has had: an expiry is never brought forward.
    pub(super) fn longest(&self, ttl: Duration) -> Duration {
        self.inner().ttl.max(ttl)
    }

    /// For how long nothing may be heard of the session before it is asked.
    pub(crate) fn silence(&self) -> Duration {
        SILENCE_MOST.min(self.inner().ttl / 10)
    }

    /// A statement sent at `sent` was answered, and prolonged the lock if `ttl` says so.
    pub(crate) fn lives(&self, sent: Instant, ttl: Option<Duration>) {
        let mut inner = self.inner();
        inner.lived = inner.lived.max(sent);
        if let Some(ttl) = ttl {
            inner.ttl = inner.ttl.max(ttl);
            inner.expires = inner.expires.max(sent.plus(ttl));
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
