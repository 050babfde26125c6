//! One attempt at a lock.

use std::sync::Arc;
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
/// look that a wait begins with. With `liveness`, which is how long one sign of life counts, one that
/// asks for it gets a place in the queue instead, or keeps the one it has. One that got the lock in the
/// step in which another of this backend gave it back needs no command at all.
pub(crate) async fn try_lock(
    store: &Arc<Store>,
    waiting: &Waiting,
    request: &LockRequest,
    ttl: Duration,
    liveness: Option<Duration>,
) -> Result<TryLock> {
    refuse_other_modes(request)?;
    let queues = request.queue && liveness.is_some();
    if queues
        && let Some(lease) = waiting.pick_up(request.claim.owner)
        && lease.valid_until.since(store.clock.now()) >= ttl / 2
    {
        return Ok(TryLock::Acquired(lease));
    }
    let position = waiting.position_of(request);
    let wait = match liveness {
        Some(liveness) if request.queue => micros(liveness),
        _ if position.is_some() => b"1".to_vec(),
        _ => b"0".to_vec(),
    };
    let claim = &request.claim;
    let owner = claim.owner.to_string();
    let arguments = [owner.as_bytes(), &micros(ttl), request.metadata.encode().as_bytes(), &wait];
    let answer = store.run(&script::ACQUIRE, &[store.names.record(&claim.key)], &arguments).await?;
    Ok(match granted(&answer.value)? {
        Granted::Token(token) => {
            if queues {
                waiting.leaves_queue(claim.owner);
            }
            let lease = Lease::granted(request, token, ttl, answer.sent);
            replication::confirm(store, &lease).await?;
            TryLock::Acquired(lease)
        }
        Granted::Busy(busy, token) => {
            if queues {
                waiting.queues(request, ttl);
            }
            TryLock::Busy(busy.cursor(cursor(position, token)))
        }
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
