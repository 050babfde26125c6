//! One attempt at a lock.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    Busy, Effect, Error, ErrorKind, FencingToken, Lease, LockRequest, Mode, Result, TryLock,
};

use super::look::look;
use super::record::{Record, ttl_micros};
use super::together::{self, Change};
use crate::server::connections::Lane;
use crate::server::store::Store;
use crate::server::waiting::cursor;

/// Takes the lock if it is free, and if not finds out who has it. If the
/// attempt is one of a waiter, `position` is where the announcements stand, and a held lock is marked as
/// waited for in the same step.
pub(super) async fn try_lock(
    store: &Arc<Store>,
    request: &LockRequest,
    ttl: Duration,
    position: Option<u64>,
) -> Result<TryLock> {
    refuse_other_modes(request)?;
    let claim = &request.claim;
    let (ttl_micros, metadata) = (ttl_micros(ttl), request.metadata.encode());
    let answer = if position.is_some() {
        let values = [(&claim.key).into(), claim.owner.into(), ttl_micros.into(), metadata.into()];
        store.run(Lane::Attempt, store.sql.acquire_or_mark.with(values)).await?
    } else {
        let metadata = metadata.to_owned();
        together::make(store, Change::Acquire { claim: claim.clone(), ttl: ttl_micros, metadata }).await?
    };
    if answer.number > 0 {
        let token = FencingToken::try_from(answer.number)?;
        let lease = Lease::granted(request, token, ttl, answer.sent);
        // What was sent on the connection that broke may be run after all, though the lock be released by then.
        return Ok(TryLock::Acquired(if answer.was_repeated { lease.in_doubt() } else { lease }));
    }
    let seen = answer.rows.first().map(Record::read).transpose()?;
    // Its time may be over by now, or be in need of a cut.
    let is_current = |record: &Record| {
        !record.is_too_far && record.hold.as_ref().is_some_and(|hold| hold.owner != Some(claim.owner))
    };
    let record = match seen.filter(is_current) {
        Some(record) => Some(record),
        None => look(store, Lane::Attempt, &claim.key).await.map_err(|error| answer.doubt(error))?,
    };
    let busy = record.as_ref().map_or_else(Busy::unknown, Record::busy);
    let busy = if answer.was_repeated { busy.in_doubt() } else { busy };
    Ok(TryLock::Busy(busy.cursor(cursor(position, record.map_or(0, |record| record.token.get())))))
}

pub(super) fn refuse_other_modes(request: &LockRequest) -> Result<()> {
    match request.mode {
        Mode::Exclusive => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, "database servers have exclusive locks only")
            .with_effect(Effect::None)),
    }
}
