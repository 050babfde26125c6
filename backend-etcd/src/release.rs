//! Giving a lock back, or taking an attempt out of the queue.

use distlock_core::{Claim, LostReason, Release, Result};

use crate::error::Failure;
use crate::leases::revoke;
use crate::leasing::rule_out;
use crate::queue::{self, Entry, View};
use crate::record::Kind;
use crate::spares::Place;
use crate::standing::Standing;
use crate::store::Store;

/// Removes the claim's record: one request where this client knows that the claim holds the lock.
///
/// The lease is kept for the next lock. If there are enough of those, it is ended, which takes the record along.
pub(crate) async fn unlock(store: &Store, claim: &Claim) -> Result<Release> {
    let mut doubt = store.standings.in_doubt(claim);
    let standing = store.standings.forget(claim);
    let place = if doubt.is_none() { store.spares.place(store.clock.now()) } else { None };
    // On a shared lease what arrives after the deletion would stay. A lease of its own takes along what arrived.
    if let Some(lease) = doubt.take_if(|_| store.shared.is_some()) {
        rule_out(store, claim, lease).await?;
    }
    let held = standing.as_ref().filter(|standing| standing.is_granted);
    let is_released = match held {
        Some(standing) => give_back(store, claim, standing, place.is_some()).await?,
        None => false,
    };
    if let Some(lease) = doubt {
        rule_out(store, claim, lease).await?;
    }
    if let Some(standing) = held.filter(|_| is_released) {
        keep_lease(standing, place);
        return Ok(Release::Released);
    }
    let view = queue::look(store, claim, None).await?;
    let is_first = view.is_first();
    let mut is_removed = false;
    if let Some(own) = &view.own {
        is_removed = queue::delete_unless_other(store, &claim.key, own).await?;
        if let Some(standing) = standing.filter(|standing| is_removed && standing.created == own.created) {
            keep_lease(&standing, place);
        }
    }
    Ok(if is_first && is_removed { Release::Released } else { Release::NotHeld(reason(&view, is_first)) })
}

/// Removes the record of a lock that was granted; false if it was gone by then.
async fn give_back(
    store: &Store,
    claim: &Claim,
    standing: &Standing,
    keeps_lease: bool,
) -> Result<bool, Failure> {
    // Of a record that another one may remove meanwhile, only a condition tells who did.
    let is_on_its_lease = standing.is_own_lease && standing.moving.is_none();
    let is_last_use = !keeps_lease && is_on_its_lease && standing.record.kind == Kind::Lease;
    if is_last_use && store.clock.now() < standing.lease_until() {
        return revoke(store, standing.lease.id).await;
    }
    let (name, lease) = (store.names.record(claim), standing.lease.id);
    let entry = Entry { name, value: Vec::new(), created: standing.created, modified: 0, lease };
    queue::delete_unless_other(store, &claim.key, &entry).await
}

/// Keeps the lease of a record that is certainly gone.
fn keep_lease(standing: &Standing, place: Option<Place<'_>>) {
    if standing.is_own_lease
        && standing.moving.is_none()
        && let Some(place) = place
    {
        place.fill(standing.record.ttl, standing.lease);
    }
}

/// Why a claim does not hold the lock, by what a look showed.
fn reason(view: &View, was_first: bool) -> LostReason {
    match view.first {
        Some(_) if !was_first => LostReason::Stolen,
        _ => LostReason::Expired,
    }
}
