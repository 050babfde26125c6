//! Prolonging leases, one or many.

use std::collections::HashSet;
use std::time::Duration;

use distlock_core::{Claim, Lease, LockKey, LostReason, OwnerId, Renewal, Result};

use super::acquire::ttl_nanos;
use super::connection::Answer;
use super::list::RowList;
use super::look::look;
use super::record::{column, key_column};
use super::store::Store;

/// How many leases one statement prolongs: enough to make a statement's cost vanish, and few enough
/// that other operations get their turn in between.
const BATCH: usize = 1000;

/// What prolonging does to a record. It never shortens: a late duplicate of an earlier renewal must
/// not take anything away. The holder's own epoch counts, whoever stamped the record in between.
macro_rules! prolong {
    () => {
        "deadline = CASE WHEN l.epoch = ?1 THEN max(l.deadline, ?2 + ?3) ELSE ?2 + ?3 END,
   flips = l.flips + (l.epoch <> ?1), epoch = ?1, ttl = max(l.ttl, ?3)"
    };
}

/// A hold that can be prolonged: it is not damaged, and not known to be over.
macro_rules! lasts {
    () => {
        "l.ttl > 0 AND l.deadline > 0 AND (l.epoch <> ?1 OR (l.epoch = ?1 AND l.deadline > ?2))"
    };
}

const RENEW: &str = concat!(
    "UPDATE distlock_locks AS l SET ",
    prolong!(),
    " WHERE l.key = ?4 AND l.owner = ?5 AND l.token = ?6 AND ",
    lasts!()
);

/// Prolongs the leases in a JSON list of `[key, owner, token]`, bytes in hexadecimal.
const RENEW_MANY: &str = concat!(
    "UPDATE distlock_locks AS l SET ",
    prolong!(),
    " FROM json_each(?4) j WHERE l.key = unhex(j.value ->> 0) AND l.owner = unhex(j.value ->> 1)
   AND l.token = j.value ->> 2 AND ",
    lasts!()
);

/// Which of the leases in the list last until `?2 + ?3`.
const RENEWED: &str = "SELECT l.key, l.owner, l.token FROM json_each(?4) j
 JOIN distlock_locks l ON l.key = unhex(j.value ->> 0) AND l.owner = unhex(j.value ->> 1)
   AND l.token = j.value ->> 2
 WHERE l.ttl > 0 AND l.epoch = ?1 AND l.deadline >= ?2 + ?3";

/// Prolongs one lease.
pub(super) async fn renew(store: &Store, lease: &Lease, ttl: Duration) -> Result<Renewal> {
    store.file.check_in_place()?;
    let claim = &lease.claim;
    loop {
        let answer = store
            .write(|moment| {
                sqlx::query(RENEW)
                    .bind(store.machine.epoch())
                    .bind(moment.nanos())
                    .bind(ttl_nanos(ttl))
                    .bind(claim.key.as_bytes())
                    .bind(claim.owner.as_bytes().as_slice())
                    .bind(lease.token.get_i64())
            })
            .await?;
        if answer.changed > 0 {
            return Ok(lease.renewed(ttl, answer.sent.now));
        }
        if let Some(reason) = lost(store, claim, lease).await? {
            return Ok(Renewal::Lost(reason));
        }
    }
}

/// Prolongs many leases, one statement a batch.
pub(super) async fn renew_many(store: &Store, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let mut results = Vec::with_capacity(leases.len());
    for batch in leases.chunks(BATCH) {
        match renew_batch(store, batch, ttl).await {
            Ok(renewals) => results.extend(renewals),
            Err(error) => results.extend(batch.iter().map(|_| Err(error.clone()))),
        }
    }
    results
}

async fn renew_batch(store: &Store, batch: &[Lease], ttl: Duration) -> Result<Vec<Result<Renewal>>> {
    store.file.check_in_place()?;
    let list = json_list(batch);
    let answer = store
        .write(|moment| {
            sqlx::query(RENEW_MANY)
                .bind(store.machine.epoch())
                .bind(moment.nanos())
                .bind(ttl_nanos(ttl))
                .bind(list.clone())
        })
        .await?;
    let sent = answer.sent;
    if usize::try_from(answer.changed).is_ok_and(|changed| changed == batch.len()) {
        return Ok(batch.iter().map(|lease| Ok(lease.renewed(ttl, sent.now))).collect());
    }
    let renewed = store
        .read(|_| {
            sqlx::query(RENEWED)
                .bind(store.machine.epoch())
                .bind(sent.nanos())
                .bind(ttl_nanos(ttl))
                .bind(list.clone())
        })
        .await?;
    let renewed = held(&renewed)?;
    let mut results = Vec::with_capacity(batch.len());
    for lease in batch {
        let is_renewed =
            renewed.contains(&(lease.claim.key.clone(), lease.claim.owner, lease.token.get_i64()));
        results.push(if is_renewed {
            Ok(lease.renewed(ttl, sent.now))
        } else {
            renew(store, lease, ttl).await.map_err(|error| error.for_key(&lease.claim.key))
        });
    }
    Ok(results)
}

/// Why a lease was not prolonged, or `None` if it looks held after all.
async fn lost(store: &Store, claim: &Claim, lease: &Lease) -> Result<Option<LostReason>> {
    let view = look(store, claim).await?;
    let token = view.record.as_ref().map(|record| record.token);
    Ok(match view.hold(store) {
        Some((hold, _)) if hold.owner != claim.owner => Some(LostReason::Stolen),
        Some(_) if token == Some(lease.token) => None,
        _ => Some(LostReason::Expired),
    })
}

fn held(answer: &Answer) -> Result<HashSet<(LockKey, OwnerId, i64)>> {
    let mut held = HashSet::with_capacity(answer.rows.len());
    for row in &answer.rows {
        if let Some(owner) = OwnerId::from_bytes(&column::<Vec<u8>>(row, 1)?) {
            held.insert((key_column(row, 0)?, owner, column::<i64>(row, 2)?));
        }
    }
    Ok(held)
}

fn json_list(leases: &[Lease]) -> String {
    let mut list = RowList::with_capacity(leases.len());
    for lease in leases {
        let claim = &lease.claim;
        list.row(claim.key.as_bytes()).bytes(claim.owner.as_bytes()).number(lease.token.get_i64());
    }
    list.into_json()
}
