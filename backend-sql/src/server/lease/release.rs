//! Giving a lock back.

use std::sync::Arc;

use distlock_core::{Claim, Effect, Error, ErrorKind, LostReason, Release, Result};

use super::look::look;
use super::together::{self, Change};
use crate::server::connections::Lane;
use crate::server::store::Store;

/// Removes every trace of `claim`, and tells who waits: one statement if it holds the lock.
pub(super) async fn unlock(store: &Arc<Store>, claim: &Claim) -> Result<Release> {
    let of_claim = || [(&claim.key).into(), claim.owner.into()];
    loop {
        let released = together::make(store, Change::Release(claim.clone())).await?;
        if released.matched > 0 {
            return Ok(Release::Released);
        }
        let record = look(store, Lane::Upkeep, &claim.key).await.map_err(|error| released.doubt(error))?;
        if record.as_ref().is_some_and(|record| record.is_held_by(claim.owner)) {
            // An attempt of this claim that was on its way has landed meanwhile.
            continue;
        }
        if released.was_repeated {
            return Err(unclear());
        }
        let Some(record) = record else { return Ok(Release::NotHeld(LostReason::Expired)) };
        if record.hold.is_some() {
            return Ok(Release::NotHeld(LostReason::Stolen));
        }
        if record.owner == Some(claim.owner) {
            store.run(Lane::Upkeep, store.sql.withdraw.with(of_claim())).await?;
        }
        return Ok(Release::NotHeld(LostReason::Expired));
    }
}

/// The error of a change that was sent twice and did nothing the second time.
pub(super) fn unclear() -> Error {
    let message = "the connection broke, and when asked again the lock was not held any more: by this call or since before is not known";
    Error::new(ErrorKind::Unavailable, message).with_effect(Effect::Unknown)
}
