//! Giving a lock back.

use distlock_core::{Claim, LostReason, Release, Result};
use redis::Value;

use crate::acquire::micros;
use crate::error::unreadable;
use crate::reply::{number, parts, token_of};
use crate::script;
use crate::store::Store;
use crate::waiting::Successor;

/// Frees the lock if the claim holds it, and tells those who wait: one round trip. If it is the turn
/// of `successor`, that one has the lock in the same step, and nobody is told.
pub(crate) async fn unlock(
    store: &Store,
    claim: &Claim,
    successor: Option<Successor<'_>>,
) -> Result<Release> {
    let owner = claim.owner.to_string();
    let (channel, shard_channel) = (store.names.channel(), store.names.shard_channel(&claim.key));
    let next = successor.as_ref().map(|next| {
        let request = next.request();
        (request.claim.owner.to_string(), micros(next.ttl()), request.metadata.encode())
    });
    let mut arguments = vec![owner.as_bytes(), channel, claim.key.as_bytes(), &shard_channel];
    if let Some((owner, ttl, metadata)) = &next {
        arguments.extend([owner.as_bytes(), ttl, metadata.as_bytes()]);
    }
    let answer = store.run(&script::RELEASE, &[store.names.record(&claim.key)], &arguments).await?;
    if let [Value::Int(1), token] = parts(&answer.value)? {
        let token = token_of(token)?;
        if let Some(successor) = successor {
            successor.granted(token, answer.sent);
        }
        return Ok(Release::Released);
    }
    if let Some(successor) = successor {
        successor.passed_over();
    }
    match number(&answer.value)? {
        0 => Ok(Release::NotHeld(LostReason::Expired)),
        1 => Ok(Release::Released),
        2 => Ok(Release::NotHeld(LostReason::Stolen)),
        _ => unreadable(),
    }
}
