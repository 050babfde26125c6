//! Passing a held lock on.

use std::time::Duration;

use distlock_core::{Busy, Lease, LockRequest, Result, TryLock};

use crate::acquire::{self, busy, grant, kind, refuse_other_modes};
use crate::leases::whole_seconds;
use crate::leasing::{lease_for, no_lease, refresh, settle};
use crate::queue::{self, Entry, Replaced, View};
use crate::record::Record;
use crate::renew;
use crate::standing::Standing;
use crate::store::Store;

/// Passes the lock of `lease` on to `next`, in one transaction or not at all. `Busy` if the lease is not held any more, or if
/// others stand in the queue: nobody passes them there.
pub(crate) async fn hand_over(
    store: &Store,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    refuse_other_modes(next)?;
    next.require_key_of(lease)?;
    if let Some(shared) = &store.shared {
        shared.check(ttl)?;
    }
    let known = renew::standings(store, std::slice::from_ref(lease)).await?;
    let Some(old) = known.into_iter().next().flatten() else {
        let view = queue::look(store, &next.claim, None).await?;
        return gone(store, lease, next, &view).await;
    };
    // The release rules out what is in doubt.
    if [&lease.claim, &next.claim].iter().any(|claim| store.standings.in_doubt(claim).is_some()) {
        return Ok(TryLock::Busy(Busy::unknown()));
    }
    if let Some(waiting) = store.standings.of(&next.claim) {
        return make_way(store, lease, &old, next, waiting.created).await;
    }
    // Others are expected, and to learn that they are there costs a write.
    if store.contended.has(&next.claim.key) {
        return Ok(TryLock::Busy(Busy::unknown()));
    }
    pass_on(store, lease, &old, next, ttl).await
}

async fn pass_on(
    store: &Store,
    lease: &Lease,
    old: &Standing,
    next: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    // The next record takes the old one's lease where that has the right ttl.
    let takes_lease = old.is_own_lease
        && old.moving.is_none()
        && !old.lease.is_of_a_former_leader()
        && whole_seconds(old.record.ttl) == whole_seconds(ttl);
    let (mut store_lease, is_used) =
        if takes_lease { (old.lease, true) } else { lease_for(store, ttl).await? };
    let kind = kind(store, store_lease, ttl);
    let mut record = Record { kind, ttl, base: 0, metadata: next.metadata.clone() };
    loop {
        record.base = store.floor.seen().value;
        let sent = store.clock.now();
        if !takes_lease {
            store.standings.begin(&next.claim, store_lease, store.shared.is_none(), sent);
        }
        let replacing =
            queue::replace(store, &lease.claim, old.created, &next.claim, &record, store_lease.id);
        let (kept, replaced) = futures_util::join!(refresh(store, store_lease, is_used), replacing);
        store_lease = match &replaced {
            Ok(Replaced::Yes(view)) => kept.unless_outdated(store_lease, view.term),
            _ => kept,
        };
        settle(store, &next.claim, &replaced, true);
        match replaced {
            Ok(Replaced::FloorRaised) => {}
            Ok(Replaced::Yes(view)) => {
                store.standings.forget(&lease.claim);
                if old.is_own_lease
                    && old.moving.is_none()
                    && !takes_lease
                    && let Some(place) = store.spares.place(store.clock.now())
                {
                    place.fill(old.record.ttl, old.lease);
                }
                let standing = Standing {
                    lease: store_lease,
                    is_own_lease: store.shared.is_none(),
                    moving: None,
                    record,
                    created: view.revision,
                    is_granted: true,
                    before: None,
                };
                let granted = grant(next, &standing, sent)?;
                store.standings.note(&next.claim, standing);
                return Ok(TryLock::Acquired(granted));
            }
            Ok(Replaced::Gone(view)) => return gone(store, lease, next, &view).await,
            Ok(Replaced::Others(View { own: Some(own), .. })) => {
                return make_way(store, lease, old, next, own.created).await;
            }
            Ok(Replaced::Others(view)) => {
                store.contended.note(&next.claim.key, true);
                return busy(store, &view, None);
            }
            Err(failure) if failure.is_no_lease() => {
                no_lease(store, store_lease.id).await;
                return Ok(TryLock::Busy(Busy::unknown()));
            }
            Err(failure) => {
                // Whether it still has its record is to be looked up, and its lease may have another one by now.
                store.standings.forget(&lease.claim);
                return Err(failure.error);
            }
        }
    }
}

/// The old record is gone: by an earlier hand-over to the same claim, whose answer was lost, or otherwise.
async fn gone(store: &Store, lease: &Lease, next: &LockRequest, view: &View) -> Result<TryLock> {
    store.standings.forget(&lease.claim);
    if view.is_first() {
        return acquire::try_lock(store, next, next.ttl).await;
    }
    busy(store, view, None)
}

/// Removes the old record if the next one, which is in the queue already, stands directly behind it.
async fn make_way(
    store: &Store,
    lease: &Lease,
    old: &Standing,
    next: &LockRequest,
    created: i64,
) -> Result<TryLock> {
    let view = queue::look(store, &next.claim, Some(created)).await?;
    let name = store.names.record(&lease.claim);
    let is_next = view.last.as_ref() == Some(&name)
        && view.first.as_ref().is_some_and(|first| first.name == name && first.created == old.created);
    if !is_next {
        return busy(store, &view, None);
    }
    let entry = Entry { name, value: Vec::new(), created: old.created, modified: 0, lease: old.lease.id };
    store.standings.forget(&lease.claim);
    if !queue::delete_unless_other(store, &lease.claim.key, &entry).await? {
        return busy(store, &view, None);
    }
    acquire::try_lock(store, next, next.ttl).await
}
