//! The statements that grant.
//!
//! Neither asks for anything back: the token is chosen before, and the number of changed rows says
//! whether the lock was granted with it. A returned row would come before the commit, and wake the
//! caller twice.

use std::time::Duration;

use distlock_core::{FencingToken, Instant, LockRequest, Metadata, Result};

use crate::sqlite::connection::Statement;
use crate::sqlite::look::in_front;
use crate::sqlite::machine::Moment;
use crate::sqlite::store::Store;
use crate::sqlite::tokens::TokenReserve;

/// Grants to a claim that does not hold the lock: it must be free, with nobody in front, and the
/// token above all that were granted and within what is reserved. Damaged records match nothing.
///
/// If somebody is in front, or the token won't do, the row has no key and is ignored. That is a
/// good deal cheaper than `INSERT … SELECT … WHERE`, which goes through a temporary table.
const GRANT: &str = concat!(
    "INSERT OR IGNORE INTO distlock_locks (key, owner, token, deadline, epoch, ttl, metadata)
 VALUES (
   CASE WHEN (SELECT ?7 > m.token_floor AND ?7 <= m.token_ceiling FROM distlock_meta m WHERE m.id = 1)
     AND NOT EXISTS (SELECT 1 FROM distlock_claims c WHERE ",
    in_front!(),
    ") THEN ?1 END,
   ?2, ?7, ?3 + ?5, ?4, ?5, ?6)
 ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = excluded.token,
   deadline = excluded.deadline, epoch = excluded.epoch, ttl = excluded.ttl,
   metadata = excluded.metadata, flips = 0
  WHERE ((owner IS NULL AND deadline IS NULL)
     OR (deadline <= ?3 AND deadline > 0 AND epoch = ?4 AND length(owner) = 16 AND ttl > 0))
    AND token > 0 AND token < ?7"
);

/// Restarts the expiry of a claim that holds the lock already.
const RESTART: &str = "UPDATE distlock_locks
 SET deadline = CASE WHEN epoch = ?4 THEN max(deadline, ?3 + ?5) ELSE ?3 + ?5 END,
   flips = flips + (epoch <> ?4), epoch = ?4, ttl = max(ttl, ?5), metadata = ?6
 WHERE key = ?1 AND owner = ?2 AND token = ?7 AND ttl > 0 AND (epoch <> ?4 OR deadline > ?3)";

/// Grants the lock if it can be had with the next token, and says with which one, and when the
/// statement was sent.
pub(super) async fn grant(
    store: &Store,
    tokens: &TokenReserve,
    request: &LockRequest,
    ttl: Duration,
) -> Result<Option<(FencingToken, Instant)>> {
    let least = tokens.least();
    let token = |moment: Moment| least.max(moment.wall_micros);
    let answer = store.write(|moment| bound(GRANT, store, request, ttl, moment).bind(token(moment))).await?;
    if answer.changed == 0 {
        return Ok(None);
    }
    Ok(Some((FencingToken::try_from(token(answer.sent))?, answer.sent.now)))
}

/// Restarts the lease that the claim holds with `token`, and says when the statement was sent.
pub(super) async fn restart(
    store: &Store,
    request: &LockRequest,
    token: FencingToken,
    ttl: Duration,
) -> Result<Option<Instant>> {
    let answer =
        store.write(|moment| bound(RESTART, store, request, ttl, moment).bind(token.get_i64())).await?;
    Ok((answer.changed > 0).then_some(answer.sent.now))
}

fn bound(
    sql: &'static str,
    store: &Store,
    request: &LockRequest,
    ttl: Duration,
    moment: Moment,
) -> Statement {
    sqlx::query(sql)
        .bind(request.claim.key.as_bytes())
        .bind(request.claim.owner.as_bytes().as_slice())
        .bind(moment.nanos())
        .bind(store.machine.epoch())
        .bind(ttl_nanos(ttl))
        .bind(metadata_text(&request.metadata))
}

/// A ttl as its column has it; the longest that is granted fits by far.
pub(crate) fn ttl_nanos(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX)
}

pub(crate) fn metadata_text(metadata: &Metadata) -> Option<String> {
    (!metadata.is_empty()).then(|| metadata.encode().to_owned())
}
