//! One attempt at a lock.

use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Lease, LockRequest, Mode, Result, TryLock};

use crate::replication;
use crate::reply::{Granted, granted};
use crate::script;
use crate::store::Store;
use crate::waiting::{Waiting, cursor};

/// Takes the lock if it is free, and if not finds out who has it: one round trip.
///
/// An attempt of a claim that waits leaves its mark in the same step, so that it is left before the
/// look that a wait begins with.
pub(crate) async fn try_lock(
    store: &Store,
    waiting: &Waiting,
    request: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    refuse_other_modes(request)?;
    let position = waiting.position_of(request);
    let claim = &request.claim;
    let owner = claim.owner.to_string();
    let arguments = [
        owner.as_bytes(),
        &micros(ttl),
        request.metadata.encode().as_bytes(),
        if position.is_some() { b"1" } else { b"0" },
    ];
    let answer = store.run(&script::ACQUIRE, &[store.names.record(&claim.key)], &arguments).await?;
    Ok(match granted(&answer.value)? {
        Granted::Token(token) => {
            let lease = Lease::granted(request, token, ttl, answer.sent);
            replication::confirm(store, &lease).await?;
            TryLock::Acquired(lease)
        }
        Granted::Busy(busy, token) => TryLock::Busy(busy.cursor(cursor(position, token))),
    })
}

pub(crate) fn refuse_other_modes(request: &LockRequest) -> Result<()> {
    match request.mode {
        Mode::Exclusive => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, "the redis backend has exclusive locks only")
            .with_effect(Effect::None)),
    }
}

/// A ttl as the scripts take it.
pub(crate) fn micros(ttl: Duration) -> Vec<u8> {
    ttl.as_micros().to_string().into_bytes()
}
