//! Passing a held lock on.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    Busy, Effect, Error, ErrorKind, FencingToken, Instant, Lease, LockRequest, Result, TryLock,
};

use super::acquire::{metadata_text, refuse_other_modes, ttl_nanos};
use super::look::{View, look};
use super::machine::Moment;
use super::store::Store;
use super::tokens::TokenReserve;

/// Changes the holder and the token, if the old one still holds the lock and the token will do. A
/// trigger takes the new holder's mark away. Waiters of other programs are passed; how often in a
/// row is the client's to limit.
const HAND_OVER: &str = "UPDATE distlock_locks
 SET owner = ?2, token = ?7, deadline = ?3 + ?5, epoch = ?4, ttl = ?5, metadata = ?6, flips = 0
 WHERE key = ?1 AND owner = ?8 AND token = ?9 AND ?9 < ?7 AND (epoch <> ?4 OR deadline > ?3)
   AND (SELECT ?7 > m.token_floor AND ?7 <= m.token_ceiling FROM distlock_meta m WHERE m.id = 1)";

/// How often the tokens may have run out again before the statement that needs one.
const ROUNDS: usize = 4;

/// Passes the lock of `lease` on to `next`, in one statement or not at all. `Busy` if the lease is
/// not held any more; then `next` gets nothing, and no place in the queue either.
pub(super) async fn hand_over(
    store: &Arc<Store>,
    tokens: &Arc<TokenReserve>,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    refuse_other_modes(next)?;
    next.require_key_of(lease)?;
    store.file.check_in_place()?;
    for _ in 0..ROUNDS {
        if let Some((token, sent)) = pass_on(store, tokens, lease, next, ttl).await? {
            tokens.granted(token);
            return Ok(TryLock::Acquired(Lease::granted(next, token, ttl, sent)));
        }
        let view = look(store, &lease.claim).await?;
        let is_held = view.is_held_by(lease.claim.owner, store)
            && view.record.as_ref().is_some_and(|record| record.token == lease.token);
        if !is_held {
            return Ok(TryLock::Busy(busy(store, &view)));
        }
        tokens.need(view.next_token, view.ceiling).await?;
    }
    let message = "the tokens ran out again and again, since other programs raise the floor; try again";
    Err(Error::new(ErrorKind::Unavailable, message).with_effect(Effect::None))
}

async fn pass_on(
    store: &Store,
    tokens: &TokenReserve,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<Option<(FencingToken, Instant)>> {
    let least = tokens.least().max(lease.token.get_i64().saturating_add(1));
    let token = |moment: Moment| least.max(moment.wall_micros);
    let answer = store
        .write(|moment| {
            sqlx::query(HAND_OVER)
                .bind(next.claim.key.as_bytes())
                .bind(next.claim.owner.as_bytes().as_slice())
                .bind(moment.nanos())
                .bind(store.machine.epoch())
                .bind(ttl_nanos(ttl))
                .bind(metadata_text(&next.metadata))
                .bind(token(moment))
                .bind(lease.claim.owner.as_bytes().as_slice())
                .bind(lease.token.get_i64())
        })
        .await?;
    if answer.changed == 0 {
        return Ok(None);
    }
    Ok(Some((FencingToken::try_from(token(answer.sent))?, answer.sent.now)))
}

/// Who has the lock instead.
fn busy(store: &Store, view: &View) -> Busy {
    let holder = view
        .record
        .as_ref()
        .zip(view.hold(store))
        .and_then(|(record, (hold, _))| hold.holder(record.token, view.moment, &store.machine));
    holder.map_or_else(Busy::unknown, |holder| {
        let left = holder.expires_in.unwrap_or_default();
        Busy::by(holder, left)
    })
}
