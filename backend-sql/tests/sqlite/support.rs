//! What the tests share: a database in a folder of its own, claims, and waiting for a condition.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use distlock_core::{Busy, Claim, Clock, Instant, Lease, LockBackend, LockKey, LockRequest, Result, TryLock};
use distlock_sql::sqlite::{SqliteBackend, SqliteConfig};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};
use tempfile::TempDir;

pub const SECOND: Duration = Duration::from_secs(1);
pub const MS: Duration = Duration::from_millis(1);

/// A folder that goes away with the test, and the database in it.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn config(&self) -> SqliteConfig {
        SqliteConfig::new(self.file())
    }

    pub async fn open(&self) -> SqliteBackend {
        SqliteBackend::connect(self.config()).await.unwrap()
    }

    /// A connection of nobody in particular, for looking at the tables and damaging them.
    pub async fn raw(&self) -> SqliteConnection {
        raw(&self.file()).await
    }

    pub async fn execute(&self, sql: &str) {
        let mut raw = self.raw().await;
        sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&mut raw).await.unwrap();
        raw.close().await.unwrap();
    }

    pub async fn rows(&self, sql: &str) -> Vec<SqliteRow> {
        let mut raw = self.raw().await;
        let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut raw).await.unwrap();
        raw.close().await.unwrap();
        rows
    }
}

pub async fn raw(file: &std::path::Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    options.busy_timeout(5 * SECOND).disable_statement_logging().connect().await.unwrap()
}

pub fn key(name: &str) -> LockKey {
    LockKey::new(name).unwrap()
}

pub fn claim(name: &str) -> Claim {
    Claim::mint(key(name))
}

pub fn request(name: &str, ttl: Duration) -> LockRequest {
    LockRequest::new(claim(name), ttl)
}

pub fn queued(name: &str, ttl: Duration) -> LockRequest {
    request(name, ttl).queue(true)
}

pub async fn take(backend: &SqliteBackend, name: &str, ttl: Duration) -> Lease {
    granted(backend.try_lock(&request(name, ttl)).await)
}

pub fn granted(outcome: Result<TryLock>) -> Lease {
    match outcome.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

pub fn busy(outcome: Result<TryLock>) -> Busy {
    match outcome.unwrap() {
        TryLock::Busy(busy) => busy,
        TryLock::Acquired(lease) => panic!("granted: {lease:?}"),
    }
}

pub fn now() -> Instant {
    Clock::system().now()
}

/// Polls until `condition` holds, or panics after `limit`.
pub async fn eventually<F: Future<Output = bool>>(limit: Duration, what: &str, condition: impl Fn() -> F) {
    let begun = now();
    while !condition().await {
        assert!(now().since(begun) < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(2 * MS).await;
    }
}

/// This test binary again, as another process that runs `test` alone. A test that serves as a child
/// does nothing unless it finds the variables it was given here.
pub fn child(test: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// A variable that only a child has.
pub fn given(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
