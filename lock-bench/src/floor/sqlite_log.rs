//! The write-ahead log of the SQLite floor, copied as the store's is: now and then, beside the commits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Row};
use tokio::sync::Mutex;

/// After so many writes.
const EVERY: u64 = 500;
/// A log of so many pages is begun anew.
const LONG: i64 = 1000;
/// How long beginning it anew waits for its turn among writers.
const BUSY_TIMEOUT: Duration = Duration::from_millis(200);

/// A connection of its own, opened when it is needed first.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    connection: Arc<Mutex<Option<SqliteConnection>>>,
    writes: u64,
}

impl Log {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, connection: Arc::default(), writes: 0 }
    }

    /// Counts a write, and has the log copied in the background when it is due, unless that goes on already.
    pub(super) fn after_write(&mut self) {
        self.writes += 1;
        if !self.writes.is_multiple_of(EVERY) {
            return;
        }
        let Ok(mut connection) = Arc::clone(&self.connection).try_lock_owned() else { return };
        let path = self.path.clone();
        tokio::spawn(async move {
            // If somebody is in the way, or the database is gone, the next one will do.
            let _ = copy(path, &mut connection).await;
        });
    }
}

async fn copy(path: PathBuf, opened: &mut Option<SqliteConnection>) -> sqlx::Result<()> {
    let connection = match opened {
        Some(connection) => connection,
        None => {
            let options = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT);
            opened.insert(
                options.pragma("wal_autocheckpoint", "0").disable_statement_logging().connect().await?,
            )
        }
    };
    if pages(connection, "PRAGMA wal_checkpoint(PASSIVE)").await? > LONG {
        pages(connection, "PRAGMA wal_checkpoint(PASSIVE)").await?;
        pages(connection, "PRAGMA wal_checkpoint(RESTART)").await?;
    }
    Ok(())
}

/// Runs a checkpoint and says how long the log was.
async fn pages(connection: &mut SqliteConnection, checkpoint: &'static str) -> sqlx::Result<i64> {
    sqlx::query(checkpoint).fetch_one(connection).await?.try_get(1)
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::SqliteJournalMode;

    use super::*;

    #[tokio::test]
    async fn the_log_is_copied_and_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).pragma("wal_autocheckpoint", "0");
        let mut writer = options.connect().await.unwrap();
        sqlx::query("CREATE TABLE t (n INTEGER)").execute(&mut writer).await.unwrap();
        let mut log = Log::new(path.clone());
        for n in 0..4 * EVERY {
            sqlx::query("INSERT INTO t VALUES (?)").bind(n.cast_signed()).execute(&mut writer).await.unwrap();
            log.after_write();
            // As long as one goes on, no other one begins.
            if (n + 1).is_multiple_of(EVERY) {
                drop(log.connection.lock().await);
            }
        }
        let written = 4096 * 4 * EVERY;
        let size = std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
        assert!(size < written, "{size} of {written} bytes: it was begun anew");
        assert!(log.connection.lock().await.is_some());
    }
}
