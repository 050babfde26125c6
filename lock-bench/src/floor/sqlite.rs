//! The floor of the SQLite store: two statements on one connection.

use std::path::Path;

use distlock::{Clock, Error, ErrorKind, OwnerId, Result, StoreUrl};
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use tempfile::TempDir;

use super::Floor;
use super::sqlite_log::Log;

/// The same record as the store's: without the epoch and the ttl a reboot could not be told from
/// an expiry, and without the labels nobody could say who holds the lock.
const TABLE: &str = "CREATE TABLE lease (
    key BLOB NOT NULL PRIMARY KEY, owner BLOB, token INTEGER NOT NULL, deadline INTEGER, epoch TEXT,
    ttl INTEGER, metadata TEXT
) STRICT, WITHOUT ROWID";

/// One upsert that takes a free or expired lock and draws a higher token.
const ACQUIRE: &str = "INSERT INTO lease (key, owner, token, deadline, epoch, ttl, metadata)
 VALUES (?1, ?2, ?3, ?3 + ?5, ?4, ?5, ?6)
 ON CONFLICT (key) DO UPDATE SET
    owner = excluded.owner, token = max(lease.token + 1, excluded.token), deadline = excluded.deadline,
    epoch = excluded.epoch, ttl = excluded.ttl, metadata = excluded.metadata
    WHERE lease.owner IS NULL OR (lease.epoch = ?4 AND lease.deadline <= ?3)
 RETURNING token";

/// One update that gives it back, if it is still its owner's.
const RELEASE: &str =
    "UPDATE lease SET owner = NULL, deadline = NULL, epoch = NULL, ttl = NULL, metadata = NULL
 WHERE key = ?1 AND owner = ?2";

/// As long as a boot id and the labels of a holder are.
const EPOCH: &str = "00000000-0000-4000-8000-000000000000";
const METADATA: &str = "host=localhost pid=12345";

const TTL_NANOS: i64 = 30_000_000_000;

/// A database of its own in the folder of the store's, with the same settings.
#[derive(Debug)]
pub(crate) struct SqliteFloor {
    // Dropped first, so that the files are closed before they are removed.
    connection: SqliteConnection,
    log: Log,
    _folder: TempDir,
    owner: OwnerId,
}

impl Floor for SqliteFloor {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let beside = Path::new(&url.path).parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = tempfile::Builder::new()
            .prefix(".distlock-bench-")
            .tempdir_in(beside.unwrap_or(Path::new(".")))
            .map_err(|error| failed("make a folder for the floor's database", error))?;
        let path = folder.path().join("floor.db");
        let mut connection = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .pragma("wal_autocheckpoint", "0")
            .connect()
            .await
            .map_err(|error| failed("open the floor's database", error))?;
        sqlx::query(TABLE)
            .execute(&mut connection)
            .await
            .map_err(|error| failed("make the floor's table", error))?;
        Ok(Self { connection, log: Log::new(path), _folder: folder, owner: OwnerId::random() })
    }

    fn another(&self) -> Option<Self> {
        None
    }

    async fn acquire(&mut self, lane: usize) -> Result<()> {
        self.owner = OwnerId::random();
        let now = i64::try_from(Clock::system().now().as_nanos()).unwrap_or(i64::MAX);
        let granted = sqlx::query(ACQUIRE)
            .bind(key(lane))
            .bind(self.owner.as_bytes().as_slice())
            .bind(now)
            .bind(EPOCH)
            .bind(TTL_NANOS)
            .bind(METADATA)
            // To its end: the first row comes before the commit, which may still fail.
            .fetch_all(&mut self.connection)
            .await
            .map_err(|error| failed("take the bare lock", error))?;
        self.log.after_write();
        match granted.first() {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Other, "the bare lock was not free")),
        }
    }

    async fn release(&mut self, lane: usize) -> Result<()> {
        let released = sqlx::query(RELEASE)
            .bind(key(lane))
            .bind(self.owner.as_bytes().as_slice())
            .execute(&mut self.connection)
            .await
            .map_err(|error| failed("release the bare lock", error))?;
        self.log.after_write();
        match released.rows_affected() {
            1 => Ok(()),
            _ => Err(Error::new(ErrorKind::Other, "the bare lock was not held")),
        }
    }
}

fn key(lane: usize) -> Vec<u8> {
    format!("bench/{lane}").into_bytes()
}

fn failed(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, format!("can't {what}")).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_bare_lock_excludes_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let url = StoreUrl::parse(&format!("sqlite:{}/locks.db", folder.path().display())).unwrap();
        let mut floor = SqliteFloor::open(&url).await.unwrap();
        floor.acquire(1).await.unwrap();
        assert!(floor.acquire(1).await.unwrap_err().to_string().contains("not free"));
        drop(floor);
        let mut floor = SqliteFloor::open(&url).await.unwrap();
        floor.acquire(1).await.unwrap();
        floor.release(1).await.unwrap();
        assert!(floor.release(1).await.is_err());
        drop(floor);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
