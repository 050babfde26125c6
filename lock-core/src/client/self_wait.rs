//! Suspects calls that wait for a lock which their own client holds.

use std::time::Duration;

use super::LockClient;
use super::turns::{Called, Place};
use crate::error::Result;
use crate::events::LockChange;
use crate::held::Held;
use crate::key::LockKey;

impl LockClient {
    /// Waits for the turn. Warns once, if one guard of this client has held the lock for all of a `ttl` meanwhile: the
    /// caller may be waiting for itself.
    pub(super) async fn called(&self, place: &mut Place, key: &LockKey, ttl: Duration) -> Result<Called> {
        let inner = &self.inner;
        let mut waited = Duration::ZERO;
        loop {
            if let Some(called) = inner.patience.limit(ttl, place.wait()).await {
                return called;
            }
            waited += ttl;
            let held_for = |held: &Held| inner.clock.now().since(held.granted_at());
            if let Some(held) = inner.turns.holder(key)
                && held.state().is_valid()
                && held_for(&held) >= ttl.max(held.lease().ttl)
            {
                self.warn_of_self_wait(&held, waited);
                break;
            }
        }
        place.wait().await
    }

    fn warn_of_self_wait(&self, held: &Held, waited: Duration) {
        #[cfg(feature = "tracing")]
        tracing::warn!(
            backend = self.info().name,
            key = %held.lease().claim.key,
            owner = %held.lease().claim.owner,
            ?waited,
            "a call waits for a lock that its own client has held for a whole ttl; if both are one task, it waits for ever: let it give the guard back first or pass it on, or limit the wait",
        );
        self.inner.observer.tell(held, LockChange::SelfWait { waited });
    }
}
