//! Deadlines that this machine's clock can't judge.

use distlock_core::{Error, ErrorKind, FencingToken, LockKey, Result};

use crate::sqlite::record::{Hold, column};
use crate::sqlite::store::Store;

/// How often one hold's deadline may move between epochs. A reboot moves it once.
const FLIPS_MOST: i64 = 8;

/// Gives the holder its whole ttl from now on, on this epoch's clock, if the record is still the one
/// that was seen. The time is read after the record was, so a deadline that looks too far away
/// only because it is younger than the look is not cut: it is within the ttl of this later time.
const STAMP: &str = "UPDATE distlock_locks
 SET deadline = ?3 + ttl, flips = flips + (epoch <> ?4), epoch = ?4
 WHERE key = ?1 AND owner = ?2 AND token = ?5 AND epoch = ?6 AND deadline = ?7
   AND (epoch <> ?4 OR deadline > ?3 + ttl)
 RETURNING flips";

/// Stamps the hold that was seen anew: a lease of another epoch is not void, but its remaining time
/// is unknown, and at most its ttl.
pub(super) async fn stamp_anew(store: &Store, key: &LockKey, token: FencingToken, seen: &Hold) -> Result<()> {
    let answer = store
        .write(|moment| {
            sqlx::query(STAMP)
                .bind(key.as_bytes())
                .bind(seen.owner.as_bytes().as_slice())
                .bind(moment.nanos())
                .bind(store.machine.epoch())
                .bind(token.get_i64())
                .bind(seen.epoch.clone())
                .bind(seen.deadline)
        })
        .await?;
    let flips = answer.rows.first().map_or(Ok(0), |row| column::<i64>(row, 0))?;
    if flips <= FLIPS_MOST {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Misconfigured,
        format!(
            "programs under several kernels or time namespaces use {} and can't read each other's deadlines (one file, several kernels: {} and {}); give each its own file, or use a store with a server",
            store.file.path().display(),
            seen.epoch,
            store.machine.epoch()
        ),
    ))
}
