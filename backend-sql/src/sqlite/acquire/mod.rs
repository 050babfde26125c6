//! One attempt at a lock.

mod grant;
mod queue;
mod stamp;

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Cursor, Effect, Error, ErrorKind, Lease, LockRequest, Mode, Result, TryLock};

use super::look::{View, look};
use super::record::Standing;
use super::store::Store;
use super::tokens::TokenReserve;
pub(super) use grant::{Grant, metadata_text, ttl_nanos};

/// How often one attempt looks again when what it saw changed under it.
const ROUNDS: usize = 4;

/// Takes the lock if it is free, in one statement; else finds out why not.
pub(super) async fn try_lock(
    store: &Arc<Store>,
    tokens: &Arc<TokenReserve>,
    request: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    refuse_other_modes(request)?;
    store.file.check_in_place()?;
    for _ in 0..ROUNDS {
        if let Some((token, sent)) = grant::grant(store, tokens, request, ttl).await? {
            tokens.granted(token);
            return Ok(TryLock::Acquired(Lease::granted(request, token, ttl, sent)));
        }
        // The mark comes before the second look, so that whoever releases after it sees it.
        let queued = request.queue && queue::join(store, &request.claim).await?;
        let second = second_look(store, tokens, request, ttl, queued).await;
        // With a mark left behind, an error has had an effect.
        let second = second.map_err(|error| if queued { error.with_effect(Effect::Unknown) } else { error });
        if let Some(outcome) = second? {
            return Ok(outcome);
        }
    }
    Ok(TryLock::Busy(Busy::unknown()))
}

/// Why the lock was not granted, or `None` if there is no reason any more.
async fn second_look(
    store: &Arc<Store>,
    tokens: &Arc<TokenReserve>,
    request: &LockRequest,
    ttl: Duration,
    queued: bool,
) -> Result<Option<TryLock>> {
    let view = look(store, &request.claim).await?;
    if let Some(record) = &view.record
        && view.is_held_by(request.claim.owner, store)
    {
        let sent = grant::restart(store, request, record.token, ttl).await?;
        return Ok(sent.map(|sent| TryLock::Acquired(Lease::granted(request, record.token, ttl, sent))));
    }
    if let Some(busy) = busy(store, request, &view).await? {
        // A queued claim is woken when its turn comes, another one by every release.
        let seen = view.record.map_or(0, |record| record.token.get());
        return Ok(Some(TryLock::Busy(busy.cursor(Cursor(if queued { 0 } else { seen })))));
    }
    tokens.need(view.next_token, view.ceiling).await?;
    Ok(None)
}

pub(super) fn refuse_other_modes(request: &LockRequest) -> Result<()> {
    match request.mode {
        Mode::Exclusive => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, "the sqlite backend has exclusive locks only")),
    }
}

/// What is in the way of a claim that does not hold the lock.
async fn busy(store: &Store, request: &LockRequest, view: &View) -> Result<Option<Busy>> {
    if let Some(record) = &view.record
        && let Some((hold, standing)) = view.hold(store)
        && let Some(holder) = hold.holder(record.token, view.moment, &store.machine)
    {
        if standing == Standing::Unreadable {
            stamp::stamp_anew(store, &request.claim.key, record.token, hold).await?;
        }
        let left = holder.expires_in.unwrap_or_default();
        return Ok(Some(Busy::by(holder, left)));
    }
    Ok(view.behind.map(|left| {
        let mut busy = Busy::unknown();
        busy.free_in = Some(left);
        busy
    }))
}
