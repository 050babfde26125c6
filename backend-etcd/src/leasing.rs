//! Which lease a record gets, and what becomes of it.

use std::time::Duration;

use distlock_core::{Claim, Effect};

use crate::error::Failure;
use crate::leases::{StoreLease, obtain, revoke};
use crate::store::Store;

/// A lease for a new record, and whether it was used before.
pub(crate) async fn lease_for(store: &Store, ttl: Duration) -> Result<(StoreLease, bool), Failure> {
    if let Some(shared) = &store.shared {
        return Ok((shared.lease(store).await?, true));
    }
    match store.spares.take(ttl, store.clock.now(), store.link.term()) {
        Some(lease) => Ok((lease, true)),
        None => Ok((obtain(store, ttl).await?, false)),
    }
}

/// Prolongs a lease that was used before, unless that was just now. Where that fails it is what it was: it has time left,
/// and a record that is written at the same time shows whether it is there.
pub(crate) async fn refresh(store: &Store, lease: StoreLease, is_used: bool) -> StoreLease {
    if store.shared.is_some() || !is_used || is_young(store, lease) {
        return lease;
    }
    let kept = store.keepalives.keep_one(&store.link, &store.clock, lease).await;
    kept.ok().flatten().unwrap_or(lease)
}

/// What came of a request that was sent to write a claim's record. `is_only`: no earlier one of the claim is in doubt, which
/// might still be carried out, whatever came of this one.
pub(crate) fn settle<T>(store: &Store, claim: &Claim, outcome: &Result<T, Failure>, is_only: bool) {
    let is_known = match outcome {
        // Nothing can be written by it any more.
        Err(failure) if failure.is_no_lease() => true,
        Err(failure) => is_only && failure.error.effect() == Effect::None,
        Ok(_) => is_only,
    };
    if is_known {
        store.standings.settle(claim);
    }
}

/// Sees to it that no request in doubt writes the claim's record any more: it would be kept as long as its lease is, which
/// others may use. One that wrote it already has done so on a shared lease; one of the claim's own is ended.
pub(crate) async fn rule_out(store: &Store, claim: &Claim, lease: StoreLease) -> Result<(), Failure> {
    match &store.shared {
        Some(shared) => shared.rule_out(store, lease.id).await?,
        None => drop(revoke(store, lease.id).await?),
    }
    store.standings.settle(claim);
    Ok(())
}

/// Puts by a lease that no record was written for, and none can be any more.
pub(crate) async fn put_by(store: &Store, ttl: Duration, lease: StoreLease) -> Result<(), Failure> {
    if store.shared.is_none() {
        match store.spares.place(store.clock.now()) {
            Some(place) => place.fill(ttl, lease),
            None => drop(revoke(store, lease.id).await?),
        }
    }
    Ok(())
}

/// The store does not have this lease any more.
pub(crate) async fn no_lease(store: &Store, id: i64) {
    match &store.shared {
        Some(shared) => shared.is_gone(id).await,
        // Whatever ended it may have ended others.
        None => drop(store.spares.clear()),
    }
}

/// Whether it was obtained or prolonged just now.
pub(crate) fn is_young(store: &Store, lease: StoreLease) -> bool {
    /// The part of a ttl that a holder gives up for the clocks is the part that may be missing here.
    const YOUNG: u32 = 100;
    store.clock.now().since(lease.alive_from) < lease.ttl / YOUNG
}
