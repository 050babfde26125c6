//! Passing a held lock on.

use std::time::Duration;

use distlock_core::{Busy, FencingToken, Lease, LockRequest, Result, TryLock};

use super::acquire::refuse_other_modes;
use super::look::look;
use super::record::{Record, ttl_micros};
use super::release::unclear;
use crate::server::connections::Lane;
use crate::server::store::Store;

/// Passes the lock of `lease` on to `next`, in one statement or not at all. `Busy` if the lease is not
/// held any more; then `next` gets nothing. Waiters keep their marks, and are not woken.
pub(super) async fn hand_over(
    store: &Store,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    refuse_other_modes(next)?;
    next.require_key_of(lease)?;
    let statement = store.sql.hand_over.with([
        (&lease.claim.key).into(),
        lease.claim.owner.into(),
        lease.token.get_i64().into(),
        next.claim.owner.into(),
        ttl_micros(ttl).into(),
        next.metadata.encode().into(),
    ]);
    let answer = store.run(Lane::Upkeep, statement).await?;
    if answer.matched > 0 {
        let token = FencingToken::try_from(answer.number)?;
        return Ok(TryLock::Acquired(Lease::granted(next, token, ttl, answer.sent)));
    }
    if answer.was_repeated {
        return Err(unclear());
    }
    let record = look(store, Lane::Upkeep, &lease.claim.key).await?;
    Ok(TryLock::Busy(record.as_ref().map_or_else(Busy::unknown, Record::busy)))
}
