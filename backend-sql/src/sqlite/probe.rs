//! Asking the database how it is.

use distlock_core::{Health, Result};

use super::look::no_bounds;
use super::record::column;
use super::store::Store;

const PROBE: &str = "SELECT sqlite_version() FROM distlock_meta WHERE id = 1";

/// The version of SQLite and what is wrong with the set-up.
pub(super) async fn probe(store: &Store) -> Result<Health> {
    store.file.check_in_place()?;
    let clock = store.machine.clock();
    let begun = clock.now();
    let answer = store.read(|_| sqlx::query(PROBE)).await?;
    let took = clock.now().since(begun);
    let Some(row) = answer.rows.first() else { return Err(no_bounds()) };
    let version = format!("SQLite {}, journal mode {}", column::<String>(row, 0)?, store.journal_mode);
    let mut health = Health::new(Some(version), took);
    if !store.has_write_ahead_log() {
        health = health.warn(
            "the database can't have a write-ahead log here, so every operation waits for the disk and readers block writers",
            "put the file on a local file system that supports shared memory",
        );
    }
    Ok(health)
}
