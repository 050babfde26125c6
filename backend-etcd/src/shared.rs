//! One lease for all locks of a client.

use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Result};
use tokio::sync::Mutex as AsyncMutex;

use crate::error::Failure;
use crate::leases::{StoreLease, obtain};
use crate::store::Store;

/// One lease for all locks of a client, which end together with it.
#[derive(Debug)]
pub(crate) struct Shared {
    ttl: Duration,
    current: AsyncMutex<Option<StoreLease>>,
}

impl Shared {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self { ttl, current: AsyncMutex::new(None) }
    }

    /// Refuses a ttl that the lease can't give.
    pub(crate) fn check(&self, ttl: Duration) -> Result<()> {
        if ttl <= self.ttl {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidOptions,
            format!(
                "a ttl of {ttl:?} is longer than that of the shared lease, {:?}; raise `shared_lease` or use a shorter ttl",
                self.ttl
            ),
        )
        .with_effect(Effect::None))
    }

    /// The lease, with at least three quarters of its time left.
    pub(crate) async fn lease(&self, store: &Store) -> Result<StoreLease, Failure> {
        let mut current = self.current.lock().await;
        let lease = match *current {
            Some(lease) if store.clock.now().since(lease.alive_from) < lease.ttl / 4 => return Ok(lease),
            Some(lease) => store.keepalives.keep_one(&store.link, &store.clock, lease.id).await?,
            None => None,
        };
        let lease = match lease {
            Some(lease) => lease,
            None => obtain(store, self.ttl).await?,
        };
        *current = Some(lease);
        Ok(lease)
    }

    /// The store does not have it any more.
    pub(crate) async fn is_gone(&self, id: i64) {
        let mut current = self.current.lock().await;
        if current.is_some_and(|lease| lease.id == id) {
            *current = None;
        }
    }

    /// It was prolonged.
    pub(crate) async fn prolonged(&self, lease: StoreLease) {
        if let Some(current) = &mut *self.current.lock().await
            && current.id == lease.id
            && current.alive_from < lease.alive_from
        {
            *current = lease;
        }
    }
}
