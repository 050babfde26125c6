//! Looking at locks and taking them away.

use std::sync::Arc;

use distlock_core::{ErrorKind, Holder, LockKey, LockRecord, Result};

use super::connection::Statement;
use super::look::no_bounds;
use super::machine::Moment;
use super::record::{Record, column, key_column, record_columns};
use super::store::Store;

/// One lock, whether it has a record, waiters or neither.
const INSPECT: &str = concat!(
    "SELECT ?1, (SELECT count(*) FROM distlock_claims c
     WHERE c.key = ?1 AND c.token IS NULL AND c.epoch = ?2 AND c.deadline > ?3), m.token_ceiling, ",
    record_columns!(),
    " FROM distlock_meta m LEFT JOIN distlock_locks l ON l.key = ?1 WHERE m.id = 1"
);

/// Held and waited-for locks in the range of keys from ?4 (or after ?5) up to, not including, ?6.
const LIST: &str = concat!(
    "SELECT k.key, (SELECT count(*) FROM distlock_claims c
     WHERE c.key = k.key AND c.token IS NULL AND c.epoch = ?2 AND c.deadline > ?3), m.token_ceiling, ",
    record_columns!(),
    " FROM (
   SELECT h.key FROM distlock_locks h WHERE h.key >= ?4 AND h.key > ?5 AND (?6 IS NULL OR h.key < ?6)
     AND NOT (h.owner IS NULL AND h.deadline IS NULL AND h.token > 0)
     AND NOT coalesce(h.epoch = ?2 AND h.deadline <= ?3 AND h.deadline > 0 AND h.ttl > 0
       AND length(h.owner) = 16 AND h.token > 0, false)
   UNION
   SELECT w.key FROM distlock_claims w WHERE w.key >= ?4 AND w.key > ?5 AND (?6 IS NULL OR w.key < ?6)
     AND w.token IS NULL AND w.epoch = ?2 AND w.deadline > ?3
   ORDER BY 1 LIMIT ?1) k
 CROSS JOIN distlock_meta m LEFT JOIN distlock_locks l ON l.key = k.key
 WHERE m.id = 1 ORDER BY k.key"
);

/// Frees the lock and lifts its token. A damaged token is replaced by the highest that may have been
/// granted at all.
const FORCE: &str = "UPDATE distlock_locks
 SET token = CASE WHEN token > 0 AND token <= m.token_ceiling THEN min(token + 1, m.token_ceiling)
       ELSE m.token_ceiling END,
   owner = NULL, deadline = NULL, epoch = NULL, ttl = NULL, metadata = NULL, flips = 0
 FROM distlock_meta m WHERE m.id = 1 AND distlock_locks.key = ?1";

/// The record of one lock.
pub(super) async fn inspect(store: &Store, key: &LockKey) -> Result<Option<LockRecord>> {
    let answer = store.read(|moment| inspect_statement(store, key, moment)).await?;
    let Some(row) = answer.rows.first() else { return Err(no_bounds()) };
    let waiters = column::<i64>(row, 1)?;
    let record = Record::read(row, 3, column(row, 2)?)?;
    if record.is_none() && waiters == 0 {
        return Ok(None);
    }
    Ok(Some(lock_record(key.clone(), waiters, record, answer.sent, store)))
}

/// Held and waited-for locks in the order of their keys. A damaged record is listed without holders;
/// [`inspect`] says what is wrong with it.
pub(super) async fn list(
    store: &Store,
    prefix: &[u8],
    after: Option<&LockKey>,
    limit: usize,
) -> Result<Vec<LockRecord>> {
    let answer = store
        .read(|moment| {
            sqlx::query(LIST)
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .bind(store.machine.epoch())
                .bind(moment.nanos())
                .bind(prefix)
                .bind(after.map_or(&[][..], LockKey::as_bytes))
                .bind(end_of_range(prefix))
        })
        .await?;
    let mut records = Vec::with_capacity(answer.rows.len());
    for row in &answer.rows {
        let record = match Record::read(row, 3, column(row, 2)?) {
            Err(error) if error.kind() == ErrorKind::Corrupt => None,
            record => record?,
        };
        records.push(lock_record(key_column(row, 0)?, column(row, 1)?, record, answer.sent, store));
    }
    Ok(records)
}

/// Takes the lock from its holder, and says from whom.
pub(super) async fn force_unlock(store: &Arc<Store>, key: &LockKey) -> Result<Option<Holder>> {
    let (at, own_key) = (Arc::clone(store), key.clone());
    let answers = store
        .transaction(move |moment| {
            vec![inspect_statement(&at, &own_key, moment), sqlx::query(FORCE).bind(own_key.as_bytes())]
        })
        .await?;
    let Some(answer) = answers.first() else { return Ok(None) };
    let Some(row) = answer.rows.first() else { return Err(no_bounds()) };
    match Record::read(row, 3, column(row, 2)?) {
        // It is replaced now; nobody can say who held it.
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        Err(error) => Err(error),
        Ok(record) => {
            Ok(record
                .and_then(|record| record.hold.as_ref()?.holder(record.token, answer.sent, &store.machine)))
        }
    }
}

fn inspect_statement(store: &Store, key: &LockKey, moment: Moment) -> Statement {
    sqlx::query(INSPECT).bind(key.as_bytes()).bind(store.machine.epoch()).bind(moment.nanos())
}

fn lock_record(
    key: LockKey,
    waiters: i64,
    record: Option<Record>,
    moment: Moment,
    store: &Store,
) -> LockRecord {
    let mut found = LockRecord::new(key).waiters(u64::try_from(waiters).unwrap_or(0));
    if let Some(record) = record {
        if let Some(holder) =
            record.hold.as_ref().and_then(|hold| hold.holder(record.token, moment, &store.machine))
        {
            found = found.holder(holder);
        }
        found = found.last_token(record.token);
    }
    found
}

/// The first key after all that start with `prefix`; `None` if there is none.
fn end_of_range(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_after_the_last_key_with_the_prefix() {
        assert_eq!(end_of_range(b"ab").as_deref(), Some(&b"ac"[..]));
        assert_eq!(end_of_range(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!(end_of_range(b"\xff"), None);
        assert_eq!(end_of_range(b""), None);
    }
}
