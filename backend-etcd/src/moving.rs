//! Moving records to leases that only the leader of now knows.
//!
//! A leader that stood still for longer than an election takes, and goes on, may revoke the leases that were over by its
//! reckoning, though its successor prolonged them: etcd-io/etcd#15247. Releases from 3.4.31 and 3.5.13 on see to that where its
//! disk stood still, but not where its whole process did. It knows those leases alone that were granted before, so each record is
//! put on a new one when its lease is prolonged for the first time by a successor. That is done before the former leader can
//! think the lease over, as long as the successor is there within half a ttl.

use distlock_core::Claim;
use etcd_client::{Compare, CompareOp, Txn};

use crate::error::Failure;
use crate::leases::{StoreLease, obtain};
use crate::leasing::is_young;
use crate::queue::put;
use crate::standing::Standing;
use crate::store::Store;

/// A record's lease, prolonged unless that was done just now and is not to be done anew; `None` if it is gone.
pub(crate) async fn keep(
    store: &Store,
    standing: &Standing,
    is_asked_anew: bool,
) -> Result<Option<StoreLease>, Failure> {
    let lease = standing.lease;
    if is_young(store, lease) && standing.moving.is_none() && !is_asked_anew {
        return Ok(Some(lease));
    }
    let ids: Vec<_> = [Some(lease), standing.moving].into_iter().flatten().map(|lease| lease.id).collect();
    let kept = Box::pin(store.keepalives.keep(&store.link, &store.clock, &ids)).await?;
    // The record may be on either.
    let lease = kept.iter().copied().reduce(Option::and).flatten().map(|kept| lease.prolonged(kept));
    if let (Some(shared), Some(lease)) = (&store.shared, lease) {
        shared.prolonged(lease).await;
    }
    Ok(lease)
}

/// Puts the record on a new lease, after its lease, and the one that it may be moving to, were prolonged; false if the record is
/// gone, or was given back meanwhile.
///
/// While it is not known whether that was carried out, both are to be prolonged. It is sent again with the same one then, so
/// that whatever arrives late changes nothing.
pub(crate) async fn move_on(store: &Store, claim: &Claim, standing: &mut Standing) -> Result<bool, Failure> {
    let created = standing.created;
    let next = match (standing.moving, &store.shared) {
        (Some(next), _) => next,
        (None, None) => obtain(store, standing.lease.ttl).await?,
        (None, Some(shared)) => {
            let lease = shared.lease(store).await?;
            let kept = store.keepalives.keep_one(&store.link, &store.clock, lease).await?;
            kept.ok_or_else(Failure::ended)?
        }
    };
    // Whoever gives it back from now on has to know, since the end of its lease alone might not remove it then.
    if !store.standings.update(claim, created, |standing| standing.moving = Some(next)) {
        return Ok(false);
    }
    let name = store.names.record(claim);
    let is_same = Compare::create_revision(name.clone(), CompareOp::Equal, created);
    let write = Txn::new().when([is_same]).and_then([put(&name, &standing.record, next.id)]);
    match store.txn_of(&claim.key, write).await {
        Ok(answer) if answer.succeeded => {
            let is_own_lease = store.shared.is_none();
            let moved = |standing: &mut Standing| {
                (standing.lease, standing.is_own_lease, standing.moving) = (next, is_own_lease, None);
            };
            moved(standing);
            store.standings.update(claim, created, moved);
            Ok(true)
        }
        Ok(_) => {
            store.standings.forget(claim);
            Ok(false)
        }
        Err(failure) => {
            if failure.is_no_lease() {
                store.standings.update(claim, created, |standing| standing.moving = None);
            }
            Err(failure)
        }
    }
}
