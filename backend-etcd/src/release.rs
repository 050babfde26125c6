//! Giving a lock back, or taking an attempt out of the queue.

use distlock_core::{Claim, LostReason, Release, Result};

use crate::error::Failure;
use crate::leases::{lease_of, revoke};
use crate::queue::{self, Entry, View};
use crate::record::Kind;
use crate::store::Store;

/// Removes the claim's record and its lease: one request where this client knows that the claim holds
/// the lock, since the lease takes the record with it.
pub(crate) async fn unlock(store: &Store, claim: &Claim) -> Result<Release> {
    let own_lease = lease_of(claim);
    let standing = store.standings.forget(claim);
    let is_simple = standing.as_ref().is_some_and(|standing| {
        standing.is_granted
            && standing.record.kind == Kind::Lease
            && standing.lease.id == own_lease
            && store.clock.now() < standing.lease_until()
    });
    if is_simple && revoke(store, own_lease).await? {
        return Ok(Release::Released);
    }
    if let Some(standing) = standing.filter(|standing| standing.is_granted && standing.lease.id != own_lease)
    {
        let name = store.names.record(claim);
        let entry = Entry {
            name,
            value: Vec::new(),
            created: standing.created,
            modified: 0,
            lease: standing.lease.id,
        };
        if queue::delete_unless_other(store, &entry).await? {
            return Ok(Release::Released);
        }
    }
    let view = queue::look(store, claim, None).await?;
    let is_first = view.is_first();
    let is_removed = match &view.own {
        Some(own) => remove(store, own, own_lease).await?,
        None => {
            // Its lease may be there without a record.
            if store.shared.is_none() {
                revoke(store, own_lease).await?;
            }
            false
        }
    };
    Ok(if is_first && is_removed { Release::Released } else { Release::NotHeld(reason(&view, is_first)) })
}

/// Removes a record and the lease that is its own; false if it was gone by then.
async fn remove(store: &Store, own: &Entry, own_lease: i64) -> Result<bool, Failure> {
    // Of a record that another one may remove meanwhile, only a condition tells who did.
    let is_lease = own.record().is_ok_and(|record| record.kind == Kind::Lease);
    if own.lease == own_lease && is_lease {
        return revoke(store, own_lease).await;
    }
    let is_removed = queue::delete_unless_other(store, own).await?;
    if own.lease == own_lease {
        revoke(store, own_lease).await?;
    }
    Ok(is_removed)
}

/// Why a claim does not hold the lock, by what a look showed.
fn reason(view: &View, was_first: bool) -> LostReason {
    match view.first {
        Some(_) if !was_first => LostReason::Stolen,
        _ => LostReason::Expired,
    }
}
