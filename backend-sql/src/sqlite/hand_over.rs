//! Passing a held lock on.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{FencingToken, Lease, LockRequest, Result, TryLock};

use super::acquire::{metadata_text, refuse_other_modes, ttl_nanos};
use super::record::column;
use super::store::Store;
use super::tokens::TokenReserve;

/// Changes the holder and draws its token, if the old one still holds the lock. A trigger takes the
/// new holder's mark away. Waiters of other programs are passed; how often in a row is the
/// client's to limit.
const HAND_OVER: &str = "UPDATE distlock_locks AS l
 SET owner = ?2, token = max(l.token + 1, m.token_floor + 1, ?7), deadline = ?3 + ?5, epoch = ?4,
   ttl = ?5, metadata = ?6, flips = 0
 FROM distlock_meta m
 WHERE m.id = 1 AND l.key = ?1 AND l.owner = ?8 AND l.token = ?9 AND (l.epoch <> ?4 OR l.deadline > ?3)
   AND max(l.token + 1, m.token_floor + 1, ?7) <= m.token_ceiling
 RETURNING token";

/// Passes the lock of `lease` on to `next`; `None` if that holder does not hold it, or no token is
/// reserved.
pub(super) async fn hand_over(
    store: &Arc<Store>,
    tokens: &Arc<TokenReserve>,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<Option<TryLock>> {
    refuse_other_modes(next)?;
    store.file.check_in_place()?;
    let answer = store
        .write(|moment| {
            sqlx::query(HAND_OVER)
                .bind(next.claim.key.as_bytes())
                .bind(next.claim.owner.as_bytes().as_slice())
                .bind(moment.nanos())
                .bind(store.machine.epoch())
                .bind(ttl_nanos(ttl))
                .bind(metadata_text(&next.metadata))
                .bind(moment.wall_micros)
                .bind(lease.claim.owner.as_bytes().as_slice())
                .bind(lease.token.get_i64())
        })
        .await?;
    let Some(row) = answer.rows.first() else { return Ok(None) };
    let token = FencingToken::try_from(column::<i64>(row, 0)?)?;
    tokens.reserve_ahead(token);
    Ok(Some(TryLock::Acquired(Lease::granted(next, token, ttl, answer.sent.now))))
}
