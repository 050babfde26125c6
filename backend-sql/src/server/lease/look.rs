//! Reading a lock's row.

use distlock_core::{LockKey, Result};

use super::record::Record;
use crate::server::connections::Lane;
use crate::server::store::Store;

/// The row of a lock, if it has one.
pub(super) async fn look(store: &Store, lane: Lane, key: &LockKey) -> Result<Option<Record>> {
    let answer = store.run(lane, store.sql.look.with([key.into()])).await?;
    let record = answer.rows.first().map(Record::read).transpose()?;
    if record.as_ref().is_some_and(|record| record.is_too_far) {
        // So that nobody waits for longer than the hold's own ttl.
        store.run(lane, store.sql.cut.with([key.into()])).await?;
    }
    Ok(record)
}
