//! One lease for all locks of a client.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Result};
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use tokio::sync::Mutex as AsyncMutex;

use crate::error::Failure;
use crate::leases::{StoreLease, obtain};
use crate::link::Repeat;
use crate::queue::get;
use crate::store::Store;

/// One lease for all locks of a client, which end together with it.
#[derive(Debug)]
pub(crate) struct Shared {
    ttl: Duration,
    current: AsyncMutex<Option<StoreLease>>,
    epoch: Mutex<Epoch>,
}

/// What was written last to rule out records of a lease: its revision, or 0 where nothing was.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    lease: i64,
    modified: i64,
}

impl Shared {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self { ttl, current: AsyncMutex::new(None), epoch: Mutex::default() }
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
            // A leader that stood still may end it; what is on it moves to the next one.
            Some(lease) if lease.granted_in < store.link.term() => None,
            Some(lease) if store.clock.now().since(lease.alive_from) < lease.ttl / 4 => return Ok(lease),
            Some(lease) => store.keepalives.keep_one(&store.link, &store.clock, lease).await?,
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

    /// The condition of a new record on this lease that it was not ruled out.
    pub(crate) fn is_unchanged(&self, store: &Store, lease: i64) -> Compare {
        let epoch = *self.epoch();
        let modified = if epoch.lease == lease { epoch.modified } else { 0 };
        Compare::mod_revision(store.names.epoch(lease), CompareOp::Equal, modified)
    }

    /// Refuses all new records on this lease that are still on their way. A request of this client that waits for its answer is
    /// refused, too, and sent again.
    pub(crate) async fn rule_out(&self, store: &Store, lease: i64) -> Result<(), Failure> {
        let options = PutOptions::new().with_lease(lease);
        let write = Txn::new().and_then([TxnOp::put(store.names.epoch(lease), "", Some(options))]);
        match store.txn(Repeat::Freely, &write).await {
            Ok(answer) => {
                self.note(lease, answer.revision);
                Ok(())
            }
            // Then nothing can be written on it anyway.
            Err(failure) if failure.is_no_lease() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Reads what was written last to rule out records of this lease.
    pub(crate) async fn read_epoch(&self, store: &Store, lease: i64) -> Result<(), Failure> {
        let read = Txn::new().and_then([get(store.names.epoch(lease))]);
        let answer = store.txn(Repeat::Freely, &read).await?;
        let found = answer.ranges.into_iter().flatten().next();
        self.note(lease, found.map_or(0, |entry| entry.modified));
        Ok(())
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

    fn note(&self, lease: i64, modified: i64) {
        let mut epoch = self.epoch();
        if epoch.lease != lease || epoch.modified < modified {
            *epoch = Epoch { lease, modified };
        }
    }

    fn epoch(&self) -> MutexGuard<'_, Epoch> {
        // Every change is complete before anything can panic.
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
