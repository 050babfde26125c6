//! What SQLite and its driver do, as far as the backend relies on it.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and wait with deadlines"
)]

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Either, Executor, Row, SqliteConnection};

async fn open(folder: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(folder.join("facts.db")).create_if_missing(true);
    let options = options.busy_timeout(Duration::from_millis(20)).pragma("journal_mode", "WAL");
    options.disable_statement_logging().connect().await.unwrap()
}

async fn run(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::query(sql).execute(connection).await.unwrap();
}

async fn number(connection: &mut SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query(sql).fetch_one(connection).await.unwrap().get(0)
}

fn code(error: &sqlx::Error) -> String {
    error.as_database_error().unwrap().code().unwrap().into_owned()
}

#[tokio::test]
async fn the_bundled_library_is_new_enough() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = open(folder.path()).await;
    let row = sqlx::query("SELECT sqlite_version(), unhex('ff')").fetch_one(&mut one).await.unwrap();
    let version: String = row.get(0);
    let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
    assert!(minor >= 41, "{version}");
    assert_eq!(row.get::<Vec<u8>, _>(1), [0xff]);
}

/// Why no statement's answer is read only up to its first row.
#[tokio::test]
async fn a_returned_row_comes_before_the_commit_that_may_still_fail() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = open(folder.path()).await;
    run(&mut one, "CREATE TABLE parent (id INTEGER PRIMARY KEY)").await;
    // Checked at the commit, which stands for a disk that is full then.
    run(&mut one, "CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)")
        .await;
    const INSERT: &str = "INSERT INTO child VALUES (1) RETURNING id";
    let first = sqlx::query(INSERT).fetch_optional(&mut one).await;
    assert!(first.unwrap().is_some(), "a row, though nothing was committed");
    assert_eq!(number(&mut one, "SELECT count(*) FROM child").await, 0);

    let mut answer = one.fetch_many(sqlx::query(INSERT));
    assert!(matches!(answer.try_next().await.unwrap(), Some(Either::Right(_))));
    assert!(answer.try_next().await.is_err(), "reading on finds out");
}

/// Why a dropped call may have had its effect, and why its sweep comes after it.
#[tokio::test]
async fn a_statement_that_was_sent_runs_although_its_caller_is_dropped_and_keeps_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = open(folder.path()).await;
    run(&mut one, "CREATE TABLE t (x INTEGER)").await;
    for n in 1..=50 {
        {
            let mut dropped = pin!(sqlx::query("INSERT INTO t VALUES (1) RETURNING x").fetch_all(&mut one));
            poll_fn(|context| {
                // Once is enough to send it.
                let _ = dropped.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
        }
        assert_eq!(number(&mut one, "SELECT count(*) FROM t").await, n);
    }
    let mut other = open(folder.path()).await;
    run(&mut other, "INSERT INTO t VALUES (2)").await;
}

#[tokio::test]
async fn contention_has_these_codes() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(folder.path()).await, open(folder.path()).await);
    run(&mut one, "CREATE TABLE t (x INTEGER)").await;
    run(&mut one, "INSERT INTO t VALUES (1)").await;
    run(&mut one, "BEGIN IMMEDIATE").await;
    let error = sqlx::query("INSERT INTO t VALUES (2)").execute(&mut other).await.unwrap_err();
    assert_eq!(code(&error), "5");
    // Readers are not kept out.
    assert_eq!(number(&mut other, "SELECT count(*) FROM t").await, 1);
    run(&mut one, "COMMIT").await;

    // A transaction that read before somebody else wrote can't begin to write, however long it waits.
    run(&mut one, "BEGIN").await;
    number(&mut one, "SELECT count(*) FROM t").await;
    run(&mut other, "INSERT INTO t VALUES (3)").await;
    let error = sqlx::query("INSERT INTO t VALUES (4)").execute(&mut one).await.unwrap_err();
    assert_eq!(code(&error), "517");
    run(&mut one, "ROLLBACK").await;
    // A single statement reads and writes under one lock instead.
    run(&mut one, "INSERT INTO t SELECT max(x) + 1 FROM t").await;
}

#[tokio::test]
async fn a_statement_that_was_refused_has_changed_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(folder.path()).await, open(folder.path()).await);
    run(&mut one, "CREATE TABLE t (x INTEGER)").await;
    run(&mut one, "BEGIN IMMEDIATE").await;
    sqlx::query("INSERT INTO t VALUES (2)").execute(&mut other).await.unwrap_err();
    run(&mut one, "COMMIT").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(number(&mut one, "SELECT count(*) FROM t").await, 0);
}

#[tokio::test]
async fn the_data_version_moves_with_commits_of_others_alone() {
    const VERSION: &str = "PRAGMA data_version";
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(folder.path()).await, open(folder.path()).await);
    run(&mut one, "CREATE TABLE t (x INTEGER)").await;
    let before = number(&mut one, VERSION).await;
    run(&mut one, "INSERT INTO t VALUES (1)").await;
    assert_eq!(number(&mut one, VERSION).await, before, "its own commit");
    run(&mut other, "BEGIN IMMEDIATE").await;
    run(&mut other, "INSERT INTO t VALUES (2)").await;
    assert_eq!(number(&mut one, VERSION).await, before, "not committed yet");
    run(&mut other, "ROLLBACK").await;
    assert_eq!(number(&mut one, VERSION).await, before, "rolled back");
    run(&mut other, "UPDATE t SET x = 5 WHERE x = 77").await;
    assert_eq!(number(&mut one, VERSION).await, before, "nothing changed");
    run(&mut other, "INSERT INTO t VALUES (3)").await;
    assert_ne!(number(&mut one, VERSION).await, before, "committed");
}

#[tokio::test]
async fn blobs_are_compared_byte_by_byte_and_integers_overflow_into_floats() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = open(folder.path()).await;
    assert_eq!(number(&mut one, "SELECT x'61' < x'6100' AND x'61ff' < x'62' AND x'41' <> x'61'").await, 1);
    assert_eq!(number(&mut one, "SELECT 9223372036854775807 + 1 <= 9223372036854775807").await, 0);
    let row = sqlx::query("SELECT typeof(9223372036854775807 + 1)").fetch_one(&mut one).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "real");
}

#[tokio::test]
async fn returning_sees_the_new_row_and_other_tables() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = open(folder.path()).await;
    run(&mut one, "CREATE TABLE t (x INTEGER PRIMARY KEY, y INTEGER)").await;
    run(&mut one, "CREATE TABLE u (z INTEGER)").await;
    run(&mut one, "INSERT INTO u VALUES (7)").await;
    const UPSERT: &str = "INSERT INTO t VALUES (1, 1) ON CONFLICT (x) DO UPDATE SET y = y + 1 WHERE y < 2
        RETURNING y, (SELECT z FROM u)";
    for wanted in [Some(1), Some(2), None] {
        let rows = sqlx::query(UPSERT).fetch_all(&mut one).await.unwrap();
        assert_eq!(rows.first().map(|row| row.get::<i64, _>(0)), wanted);
        assert!(rows.iter().all(|row| row.get::<i64, _>(1) == 7));
    }
}
