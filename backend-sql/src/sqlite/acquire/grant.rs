//! The statements that grant.
//!
//! Those for one claim ask for nothing back: the token is chosen before, and the number of changed
//! rows says whether the lock was granted with it. A returned row would come before the commit, and
//! wake the caller twice.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{FencingToken, Gathering, Instant, Keyed, LockKey, LockRequest, Metadata, Result};

use crate::sqlite::connection::Statement;
use crate::sqlite::list::RowList;
use crate::sqlite::look::in_front;
use crate::sqlite::machine::{Machine, Moment};
use crate::sqlite::store::Store;
use crate::sqlite::together::{self, Change, Outcome, many};
use crate::sqlite::tokens::TokenReserve;

/// Takes a record whose holder is gone, with a token above all of its earlier ones.
macro_rules! take {
    () => {
        "
 ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = excluded.token,
   deadline = excluded.deadline, epoch = excluded.epoch, ttl = excluded.ttl,
   metadata = excluded.metadata, flips = 0
  WHERE ((owner IS NULL AND deadline IS NULL)
     OR (deadline <= ?3 AND deadline > 0 AND epoch = ?4 AND length(owner) = 16 AND ttl > 0))
    AND token > 0 AND token < excluded.token"
    };
}

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
   ?2, ?7, ?3 + ?5, ?4, ?5, ?6)",
    take!()
);

/// Does the same for each `[key, owner, token, ttl, metadata]` in a list, and says which ones it
/// granted.
const GRANT_MANY: &str = concat!(
    "WITH v AS MATERIALIZED (
   SELECT unhex(j.value ->> 0) AS key, unhex(j.value ->> 1) AS owner, j.value ->> 2 AS token,
     j.value ->> 3 AS ttl, nullif(CAST(unhex(j.value ->> 4) AS TEXT), '') AS metadata
   FROM json_each(?1) j)
 INSERT OR IGNORE INTO distlock_locks (key, owner, token, deadline, epoch, ttl, metadata)
 SELECT
   CASE WHEN (SELECT v.token > m.token_floor AND v.token <= m.token_ceiling
       FROM distlock_meta m WHERE m.id = 1)
     AND NOT EXISTS (SELECT 1 FROM distlock_claims c WHERE ",
    in_front!("v.key", "v.owner"),
    ") THEN v.key END,
   v.owner, v.token, ?3 + v.ttl, ?4, v.ttl, v.metadata FROM v WHERE true",
    take!(),
    " RETURNING key"
);

/// Restarts the expiry of a claim that holds the lock already.
const RESTART: &str = "UPDATE distlock_locks
 SET deadline = CASE WHEN epoch = ?4 THEN max(deadline, ?3 + ?5) ELSE ?3 + ?5 END,
   flips = flips + (epoch <> ?4), epoch = ?4, ttl = max(ttl, ?5), metadata = ?6
 WHERE key = ?1 AND owner = ?2 AND token = ?7 AND ttl > 0 AND (epoch <> ?4 OR deadline > ?3)";

/// A grant that is wanted.
#[derive(Debug)]
pub(crate) struct Grant {
    request: LockRequest,
    ttl: Duration,
    least_token: i64,
}

impl Grant {
    fn token(&self, moment: Moment) -> i64 {
        self.least_token.max(moment.wall_micros)
    }
}

impl Keyed for Grant {
    fn key(&self) -> &LockKey {
        &self.request.claim.key
    }
}

impl Change for Grant {
    fn alone(&self, machine: &Machine, moment: Moment) -> Statement {
        bound(GRANT, machine, &self.request, self.ttl, moment).bind(self.token(moment))
    }

    fn together<'a>(grants: impl Iterator<Item = &'a Self>, machine: &Machine, moment: Moment) -> Statement {
        let mut list = RowList::with_capacity(grants.size_hint().0);
        for grant in grants {
            let LockRequest { claim, metadata, .. } = &grant.request;
            list.row(claim.key.as_bytes())
                .bytes(claim.owner.as_bytes())
                .number(grant.token(moment))
                .number(ttl_nanos(grant.ttl))
                .bytes(metadata.encode().as_bytes());
        }
        many(GRANT_MANY, list, machine, moment)
    }

    fn gathering(store: &Store) -> &Gathering<Self, Outcome> {
        &store.grants
    }
}

/// Grants the lock if it can be had with the next token, and says with which one, and when the
/// statement was sent.
pub(super) async fn grant(
    store: &Arc<Store>,
    tokens: &TokenReserve,
    request: &LockRequest,
    ttl: Duration,
) -> Result<Option<(FencingToken, Instant)>> {
    let least_token = tokens.least();
    let grant = Grant { request: request.clone(), ttl, least_token };
    let Some(sent) = together::make(store, grant).await? else { return Ok(None) };
    Ok(Some((FencingToken::try_from(least_token.max(sent.wall_micros))?, sent.now)))
}

/// Restarts the lease that the claim holds with `token`, and says when the statement was sent.
pub(super) async fn restart(
    store: &Store,
    request: &LockRequest,
    token: FencingToken,
    ttl: Duration,
) -> Result<Option<Instant>> {
    let answer = store
        .write(|moment| bound(RESTART, &store.machine, request, ttl, moment).bind(token.get_i64()))
        .await?;
    Ok((answer.changed > 0).then_some(answer.sent.now))
}

fn bound(
    sql: &'static str,
    machine: &Machine,
    request: &LockRequest,
    ttl: Duration,
    moment: Moment,
) -> Statement {
    sqlx::query(sql)
        .bind(request.claim.key.as_bytes())
        .bind(request.claim.owner.as_bytes().as_slice())
        .bind(moment.nanos())
        .bind(machine.epoch())
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
