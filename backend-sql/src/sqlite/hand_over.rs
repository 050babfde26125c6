//! Passing a held lock on.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{FencingToken, Lease, LockRequest, Result, TryLock};

use super::acquire::{metadata_text, refuse_other_modes, ttl_nanos};
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

/// Passes the lock of `lease` on to `next`; `None` if that holder does not hold it, or the token
/// would not do.
pub(super) async fn hand_over(
    store: &Arc<Store>,
    tokens: &Arc<TokenReserve>,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<Option<TryLock>> {
    refuse_other_modes(next)?;
    store.file.check_in_place()?;
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
    let token = FencingToken::try_from(token(answer.sent))?;
    tokens.granted(token);
    Ok(Some(TryLock::Acquired(Lease::granted(next, token, ttl, answer.sent.now))))
}
