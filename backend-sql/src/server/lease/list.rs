//! Listing held locks.

use distlock_core::{ErrorKind, LockKey, LockRecord, Result};

use super::record::Record;
use crate::server::connections::Lane;
use crate::server::keys;
use crate::server::store::Store;

/// Held locks in the order of their keys, at most `limit`. A damaged one is listed without holders;
/// inspecting it says what is wrong.
pub(super) async fn list(
    store: &Store,
    prefix: &[u8],
    after: Option<&LockKey>,
    limit: usize,
) -> Result<Vec<LockRecord>> {
    let statement = store.sql.list.with([
        prefix.into(),
        after.map_or(&[][..], LockKey::as_bytes).into(),
        keys::end_of_range(prefix).as_slice().into(),
        i64::try_from(limit).unwrap_or(i64::MAX).into(),
    ]);
    let answer = store.run(Lane::Attempt, statement).await?;
    let mut records = Vec::with_capacity(answer.rows.len());
    for row in &answer.rows {
        let key = LockKey::new(row.maybe_bytes(0)?.unwrap_or_default())?;
        records.push(match Record::read(row) {
            Ok(record) => record.shown(key),
            Err(error) if error.kind() == ErrorKind::Corrupt => LockRecord::new(key),
            Err(error) => return Err(error),
        });
    }
    Ok(records)
}
