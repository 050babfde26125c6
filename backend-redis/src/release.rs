//! Giving a lock back.

use distlock_core::{Claim, LostReason, Release, Result};

use crate::error::unreadable;
use crate::reply::number;
use crate::script;
use crate::store::Store;

/// Frees the lock if the claim holds it, and tells those who wait: one round trip.
pub(crate) async fn unlock(store: &Store, claim: &Claim) -> Result<Release> {
    let owner = claim.owner.to_string();
    let arguments = [owner.as_bytes(), store.names.channel(), claim.key.as_bytes()];
    let answer = store.run(&script::RELEASE, &[store.names.record(&claim.key)], &arguments).await?;
    match number(&answer.value)? {
        0 => Ok(Release::NotHeld(LostReason::Expired)),
        1 => Ok(Release::Released),
        2 => Ok(Release::NotHeld(LostReason::Stolen)),
        _ => unreadable(),
    }
}
