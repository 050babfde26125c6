//! The statements that grant.

use std::time::Duration;

use distlock_core::{FencingToken, LockRequest, Metadata, Result};

use crate::sqlite::connection::{Answer, Statement};
use crate::sqlite::look::in_front;
use crate::sqlite::machine::Moment;
use crate::sqlite::record::column;
use crate::sqlite::store::Store;

/// Grants to a claim that does not hold the lock: it must be free, with nobody in front, and the new
/// token must be within what is reserved. Damaged records match nothing.
///
/// If somebody is in front, or the token is out of reach, the row has no key and is ignored. That is
/// a good deal cheaper than `INSERT … SELECT … WHERE`, which goes through a temporary table.
const GRANT: &str = concat!(
    "INSERT OR IGNORE INTO distlock_locks (key, owner, token, deadline, epoch, ttl, metadata)
 VALUES (
   CASE WHEN (SELECT max(m.token_floor + 1, ?7) <= m.token_ceiling FROM distlock_meta m WHERE m.id = 1)
     AND NOT EXISTS (SELECT 1 FROM distlock_claims c WHERE ",
    in_front!(),
    ") THEN ?1 END,
   ?2, max(?7, (SELECT m.token_floor + 1 FROM distlock_meta m WHERE m.id = 1)), ?3 + ?5, ?4, ?5, ?6)
 ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = max(token + 1, excluded.token),
   deadline = excluded.deadline, epoch = excluded.epoch, ttl = excluded.ttl,
   metadata = excluded.metadata, flips = 0
  WHERE ((owner IS NULL AND deadline IS NULL)
     OR (deadline <= ?3 AND deadline > 0 AND epoch = ?4 AND length(owner) = 16 AND ttl > 0))
    AND token > 0 AND token < (SELECT m.token_ceiling FROM distlock_meta m WHERE m.id = 1)
 RETURNING token"
);

/// Restarts the expiry of a claim that holds the lock already.
const RESTART: &str = "UPDATE distlock_locks
 SET deadline = CASE WHEN epoch = ?4 THEN max(deadline, ?3 + ?5) ELSE ?3 + ?5 END,
   flips = flips + (epoch <> ?4), epoch = ?4, ttl = max(ttl, ?5), metadata = ?6
 WHERE key = ?1 AND owner = ?2 AND token > 0 AND ttl > 0 AND (epoch <> ?4 OR deadline > ?3)
 RETURNING token";

type Granted = Option<(FencingToken, Moment)>;

pub(super) async fn grant(store: &Store, request: &LockRequest, ttl: Duration) -> Result<Granted> {
    let answer =
        store.write(|moment| bound(GRANT, store, request, ttl, moment).bind(moment.wall_micros)).await?;
    granted(&answer)
}

pub(super) async fn restart(store: &Store, request: &LockRequest, ttl: Duration) -> Result<Granted> {
    let answer = store.write(|moment| bound(RESTART, store, request, ttl, moment)).await?;
    granted(&answer)
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

fn granted(answer: &Answer) -> Result<Granted> {
    let Some(row) = answer.rows.first() else { return Ok(None) };
    Ok(Some((FencingToken::try_from(column::<i64>(row, 0)?)?, answer.sent)))
}

/// A ttl as its column has it; the longest that is granted fits by far.
pub(crate) fn ttl_nanos(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX)
}

pub(crate) fn metadata_text(metadata: &Metadata) -> Option<String> {
    (!metadata.is_empty()).then(|| metadata.encode().to_owned())
}
