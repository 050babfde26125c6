//! One connection, taken in turns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock_core::{Backoff, Clock, Deadline, Effect, Error, ErrorKind, Result};
use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Connection as _, Either, Executor, Sqlite, SqliteConnection};
use tokio::sync::{Mutex, MutexGuard};

use super::error::{classify, is_broken_connection, is_contention, locked};
use super::file::DatabaseFile;
use super::machine::{Machine, Moment};

pub(super) type Statement = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

/// What a statement gave.
pub(super) struct Answer {
    /// Read before the statement left.
    pub(super) sent: Moment,
    pub(super) rows: Vec<SqliteRow>,
    /// How many rows it changed.
    pub(super) changed: u64,
}

/// One SQLite connection, which the driver runs on a thread of its own, taken in turns first come,
/// first served.
///
/// A caller that is dropped before its statement was sent has done nothing. One that is dropped
/// after has sent it: the thread runs it to its end, and whatever is sent later comes after it.
/// That is sound for a statement that is a transaction by itself. Several statements that belong
/// together must run in a task of their own, see [`Store`](super::store::Store).
#[derive(Debug)]
pub(super) struct Connection {
    slot: Mutex<Slot>,
    file: DatabaseFile,
    use_for: Use,
    machine: Machine,
    patience: Duration,
    sent: AtomicU64,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Writing,
    Reading,
    Checkpoints,
}

#[derive(Debug)]
enum Slot {
    Open(SqliteConnection),
    /// Not opened yet, or its thread is gone: the next turn opens one.
    Unopened,
    Closed,
}

impl Connection {
    /// A connection that is opened when it is used first.
    pub(super) fn unopened(use_for: Use, file: DatabaseFile, machine: Machine, patience: Duration) -> Self {
        let slot = Mutex::new(Slot::Unopened);
        Self { slot, file, use_for, machine, patience, sent: AtomicU64::new(0) }
    }

    /// How many statements were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Runs one statement that is a transaction by itself. `statement` is made anew for every
    /// attempt, with the time of that attempt.
    pub(super) async fn run(&self, statement: impl Fn(Moment) -> Statement + Send) -> Result<Answer> {
        self.turn().await?.run(statement).await
    }

    /// Waits for this caller's turn.
    pub(super) async fn turn(&self) -> Result<Turn<'_>> {
        let mut slot = self.lock().await?;
        match *slot {
            Slot::Open(_) => {}
            Slot::Closed => {
                return Err(Error::new(ErrorKind::Shutdown, "the database was closed; connect again"));
            }
            Slot::Unopened => *slot = Slot::Open(self.file.connect(self.use_for).await?),
        }
        Ok(Turn { connection: self, slot, midway: false })
    }

    /// A turn, if nobody is in the way and the connection is open.
    pub(super) fn free_turn(&self) -> Option<Turn<'_>> {
        let slot = self.slot.try_lock().ok()?;
        matches!(*slot, Slot::Open(_)).then_some(Turn { connection: self, slot, midway: false })
    }

    /// Closes the connection; later turns fail with `Shutdown`.
    pub(super) async fn close(&self) -> Result<()> {
        let slot = std::mem::replace(&mut *self.slot.lock().await, Slot::Closed);
        if let Slot::Open(connection) = slot {
            connection.close().await.map_err(|error| classify(error, self.file.path()))?;
        }
        Ok(())
    }

    async fn lock(&self) -> Result<MutexGuard<'_, Slot>> {
        if let Ok(slot) = self.slot.try_lock() {
            return Ok(slot);
        }
        #[expect(clippy::disallowed_methods, reason = "nothing was sent yet that a time-out could cut off")]
        tokio::time::timeout(self.patience, self.slot.lock()).await.map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                format!("no turn on the database within {:?}; see why it is slow", self.patience),
            )
            .with_effect(Effect::None)
        })
    }
}

/// Exclusive use of a connection.
pub(super) struct Turn<'a> {
    connection: &'a Connection,
    slot: MutexGuard<'a, Slot>,
    /// Between two statements that belong together.
    midway: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.midway {
            // The next turn must not begin where this one stopped. SQLite rolls back what was open.
            *self.slot = Slot::Unopened;
        }
    }
}

impl Turn<'_> {
    /// Several statements follow that belong together. If the turn ends before [`Turn::is_through`],
    /// as when the runtime does, its connection is closed and the next turn opens another.
    pub(super) const fn several(&mut self) {
        self.midway = true;
    }

    /// The connection is again as it was before [`Turn::several`].
    pub(super) const fn is_through(&mut self) {
        self.midway = false;
    }

    /// Runs one statement, again and again while other connections are in the way.
    pub(super) async fn run(&mut self, statement: impl Fn(Moment) -> Statement + Send) -> Result<Answer> {
        let path = self.connection.file.path();
        let mut pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(16));
        let mut deadline = None;
        loop {
            // Not before: a time read while waiting for the turn would be stale for no reason.
            let sent = self.connection.machine.moment();
            match self.send(statement(sent)).await {
                Ok((rows, changed)) => return Ok(Answer { sent, rows, changed }),
                Err(error) if is_contention(&error) => {
                    let clock = Clock::system();
                    let deadline: &mut Deadline =
                        deadline.get_or_insert_with(|| Deadline::after(&clock, self.connection.patience));
                    if deadline.is_past(&clock) {
                        return Err(Error::new(ErrorKind::Unavailable, locked(path))
                            .with_effect(Effect::None)
                            .caused_by(error));
                    }
                    tokio::time::sleep(pauses.pause()).await;
                }
                Err(error) => {
                    if is_broken_connection(&error) {
                        *self.slot = Slot::Unopened;
                    }
                    return Err(classify(error, path));
                }
            }
        }
    }

    /// Sends a statement and reads its answer up to the driver's word that the statement is through,
    /// which comes after its commit. Stopping at the first row would take a row for a success that the
    /// commit may still undo; waiting for the end of the stream would wake the caller once more for
    /// nothing.
    async fn send(&mut self, statement: Statement) -> Result<(Vec<SqliteRow>, u64), sqlx::Error> {
        let Slot::Open(connection) = &mut *self.slot else { return Err(sqlx::Error::WorkerCrashed) };
        self.connection.sent.fetch_add(1, Ordering::Relaxed);
        let mut answer = connection.fetch_many(statement);
        let mut rows = Vec::new();
        while let Some(part) = answer.try_next().await? {
            match part {
                Either::Left(done) => return Ok((rows, done.rows_affected())),
                Either::Right(row) => rows.push(row),
            }
        }
        // Only an empty statement ends without that word.
        Ok((rows, 0))
    }
}
