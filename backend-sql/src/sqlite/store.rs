//! The open database: a connection that writes, one that reads, and what needs several statements.

use std::sync::Arc;

use distlock_core::{Error, ErrorKind, Gathering, Result};

use super::acquire::Grant;
use super::checkpoints::Checkpoints;
use super::connection::{Answer, Connection, Statement, Turn};
use super::file::DatabaseFile;
use super::machine::{Machine, Moment};
use super::release::Giving;
use super::together::Outcome;

/// The open database.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) file: DatabaseFile,
    pub(super) machine: Machine,
    pub(super) writer: Connection,
    /// Never writes, so that looking never waits for a commit.
    pub(super) reader: Connection,
    pub(super) checkpoints: Arc<Checkpoints>,
    /// Grants and releases that wait for the writer.
    pub(super) grants: Gathering<Grant, Outcome>,
    pub(super) releases: Gathering<Giving, Outcome>,
    /// SQLite's answer to the wish for a write-ahead log.
    pub(super) journal_mode: String,
}

impl Store {
    /// Runs one statement that may write and is a transaction by itself. May be dropped at any
    /// point: see [`Connection`].
    pub(super) async fn write(&self, statement: impl Fn(Moment) -> Statement + Send) -> Result<Answer> {
        let answer = self.writer.run(statement).await?;
        self.checkpoints.after_writes(1);
        Ok(answer)
    }

    /// Runs one statement that only reads.
    pub(super) async fn read(&self, statement: impl Fn(Moment) -> Statement + Send) -> Result<Answer> {
        self.reader.run(statement).await
    }

    /// Runs one statement so that it, and all that was committed before it, is on the disk when
    /// this returns. Goes on to its end when the caller is dropped.
    pub(super) async fn write_durably(
        self: &Arc<Self>,
        statement: impl Fn(Moment) -> Statement + Send + Sync + 'static,
    ) -> Result<Answer> {
        let store = Arc::clone(self);
        owned(async move {
            let mut turn = store.writer.turn().await?;
            turn.several();
            turn.run(|_| sqlx::query("PRAGMA synchronous = FULL")).await?;
            let answer = turn.run(statement).await;
            if store.has_write_ahead_log() {
                turn.run(|_| sqlx::query("PRAGMA synchronous = NORMAL")).await?;
            }
            turn.is_through();
            answer
        })
        .await
    }

    /// Runs several statements as one transaction. Goes on to its end when the caller is dropped,
    /// since a transaction left open would keep everybody out.
    pub(super) async fn transaction(
        self: &Arc<Self>,
        statements: impl Fn(Moment) -> Vec<Statement> + Send + Sync + 'static,
    ) -> Result<Vec<Answer>> {
        let store = Arc::clone(self);
        owned(async move {
            let mut turn = store.writer.turn().await?;
            turn.several();
            let outcome = in_transaction(&mut turn, &store.machine, statements).await;
            // Most errors have rolled back already, and then this fails. If it fails with the
            // transaction open, the connection goes, and the transaction with it.
            if outcome.is_ok() || turn.run(|_| sqlx::query("ROLLBACK")).await.is_ok() {
                turn.is_through();
            }
            outcome
        })
        .await
    }

    /// Whether commits go to a write-ahead log, which bears being synced rarely.
    pub(super) fn has_write_ahead_log(&self) -> bool {
        self.journal_mode == "wal"
    }
}

async fn in_transaction(
    turn: &mut Turn<'_>,
    machine: &Machine,
    statements: impl Fn(Moment) -> Vec<Statement> + Send + Sync,
) -> Result<Vec<Answer>> {
    turn.run(|_| sqlx::query("BEGIN IMMEDIATE")).await?;
    let count = statements(machine.moment()).len();
    let mut answers = Vec::with_capacity(count);
    for at in 0..count {
        answers.push(turn.run(|moment| statements(moment).swap_remove(at)).await?);
    }
    turn.run(|_| sqlx::query("COMMIT")).await?;
    Ok(answers)
}

/// Runs `work` to its end, whether its caller waits for it or is dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "what must not stop half-way can't live in the caller's future; it is bounded by the busy time-out"
)]
async fn owned<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    tokio::spawn(work).await.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Other, "a task of the database backend did not end").caused_by(error))
    })
}
