//! Credentials on an open connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock_core::{Clock, Instant};
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex as AsyncMutex;

use super::Opener;

/// New credentials that were refused are tried again after this long.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// With which version of the credentials one connection authenticated itself.
#[derive(Debug)]
pub(super) struct Authentication {
    version: AtomicU64,
    clock: Clock,
    /// One does it for all. Holds when it may be tried.
    renewing: AsyncMutex<Instant>,
}

impl Authentication {
    pub(super) fn of(version: u64) -> Self {
        let clock = Clock::system();
        let now = clock.now();
        Self { version: AtomicU64::new(version), clock, renewing: AsyncMutex::new(now) }
    }

    /// Authenticates the connection anew if the credentials have changed. As long as that fails,
    /// the connection keeps what it has: the server decides whether that is enough.
    pub(super) async fn keep_up(&self, opener: &Opener, connection: &mut MultiplexedConnection) {
        let version = opener.credentials_version();
        if version == self.version.load(Ordering::Acquire) {
            return;
        }
        // Others go on with the old credentials meanwhile.
        let Ok(mut may_try) = self.renewing.try_lock() else { return };
        if self.clock.now() < *may_try || version == self.version.load(Ordering::Acquire) {
            return;
        }
        match opener.authenticate(connection).await {
            Ok(()) => self.version.store(version, Ordering::Release),
            Err(_) => *may_try = self.clock.now().plus(AFTER_REFUSAL),
        }
    }
}
