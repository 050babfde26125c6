//! Passing a held lock on.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Lease, LockRequest, Result, TryLock};

use crate::acquire::{micros, refuse_other_modes};
use crate::replication;
use crate::reply::{Granted, granted};
use crate::script;
use crate::store::Store;

/// Passes the lock of `lease` on to `next`, in one step or not at all. `Busy` if the lease is not
/// held any more; then `next` gets nothing. Waiters keep their marks, and are not woken.
pub(crate) async fn hand_over(
    store: &Arc<Store>,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    refuse_other_modes(next)?;
    next.require_key_of(lease)?;
    let (owner, token) = (lease.claim.owner.to_string(), lease.token.to_string());
    let next_owner = next.claim.owner.to_string();
    let arguments = [
        owner.as_bytes(),
        token.as_bytes(),
        next_owner.as_bytes(),
        &micros(ttl),
        next.metadata.encode().as_bytes(),
    ];
    let answer = store.run(&script::HAND_OVER, &[store.names.record(&next.claim.key)], &arguments).await?;
    Ok(match granted(&answer.value)? {
        Granted::Token(token) => {
            let lease = Lease::granted(next, token, ttl, answer.sent);
            replication::confirm(store, &lease).await.map_err(passed_on)?;
            TryLock::Acquired(lease)
        }
        Granted::Busy(busy, _) => TryLock::Busy(busy),
    })
}

/// Whatever became of the new grant, the old one is over.
fn passed_on(error: Error) -> Error {
    let error = match error.kind() {
        ErrorKind::NotReplicated => error,
        _ => Error::new(
            ErrorKind::NotReplicated,
            "the lock was passed on, but whether that arrived on the replicas is not known",
        )
        .caused_by(error),
    };
    error.with_effect(Effect::Unknown)
}
