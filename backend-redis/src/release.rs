//! Giving a lock back.

use distlock_core::{Claim, LostReason, Release, Result};

use crate::error::unreadable;
use crate::reply::number;
use crate::script;
use crate::store::Store;

/// Frees the lock if the claim holds it, and tells those who wait: one round trip.
pub(crate) async fn unlock(store: &Store, claim: &Claim) -> Result<Release> {
    let owner = claim.owner.to_string();
    let (channel, shard_channel) = (store.names.channel(), store.names.shard_channel(&claim.key));
    let arguments = [owner.as_bytes(), channel, claim.key.as_bytes(), &shard_channel];
    let answer = store.run(&script::RELEASE, &[store.names.record(&claim.key)], &arguments).await?;
    match number(&answer.value)? {
        0 => Ok(Release::NotHeld(LostReason::Expired)),
        1 => Ok(Release::Released),
        2 => Ok(Release::NotHeld(LostReason::Stolen)),
        _ => unreadable(),
    }
}
