//! Credentials on an open connection.

use std::sync::Arc;
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
    renewing: Arc<AsyncMutex<Instant>>,
}

impl Authentication {
    pub(super) fn of(version: u64) -> Self {
        let clock = Clock::system();
        let now = clock.now();
        Self { version: AtomicU64::new(version), clock, renewing: Arc::new(AsyncMutex::new(now)) }
    }

    /// Authenticates the connection anew if the credentials have changed. As long as that fails,
    /// the connection keeps what it has: the server decides whether that is enough.
    pub(super) async fn keep_up(self: &Arc<Self>, opener: &Opener, connection: &MultiplexedConnection) {
        let version = opener.credentials_version();
        if version == self.version.load(Ordering::Acquire) {
            return;
        }
        // Others go on with the old credentials meanwhile.
        let Ok(mut may_try) = Arc::clone(&self.renewing).try_lock_owned() else { return };
        if self.clock.now() < *may_try || version == self.version.load(Ordering::Acquire) {
            return;
        }
        let (it, opener, mut connection) = (Arc::clone(self), opener.clone(), connection.clone());
        let renewing = async move {
            match opener.authenticate(&mut connection).await {
                Ok(()) => it.version.store(version, Ordering::Release),
                Err(_) => *may_try = it.clock.now().plus(AFTER_REFUSAL),
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a caller that gives up must not leave the wait to the next one; bounded by the connection's time-outs"
        )]
        let renewed = tokio::spawn(renewing).await;
        // It fails only with the runtime, and this call ends with that, too.
        drop(renewed);
    }
}
