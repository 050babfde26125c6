//! Copying the write-ahead log into the main file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use distlock_core::{Result, Running};

use super::connection::Connection;
use super::record::column;

/// After this many writes of this program the log is copied. It grows by one to three pages of 4 KiB
/// a write, and is begun anew when all of it was copied, so it stays at a few MiB.
const EVERY: u64 = 500;

/// A log of this many pages is not begun anew by itself any more, since somebody writes all the time.
const LONG: i64 = 1000;

/// Copies what is there, in nobody's way.
const COPY: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// Keeps writers out until the rest is copied, so that the next one begins the log anew.
const BEGIN_ANEW: &str = "PRAGMA wal_checkpoint(RESTART)";

/// Copies the log now and then, on a connection and thread of its own.
///
/// SQLite would do it inside whatever commit comes after the thousandth page, and that operation
/// would wait for the disk: for a second or more, when the disk is busy with other programs' data,
/// in which no lease of this program could be renewed.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Opened when it is needed first.
    connection: Connection,
    running: Running,
    /// Something was written that the running checkpoint may not have seen.
    due: AtomicBool,
    writes: AtomicU64,
}

impl Checkpoints {
    pub(super) fn new(connection: Connection) -> Arc<Self> {
        let (running, due) = (Running::default(), AtomicBool::new(false));
        Arc::new(Self { connection, running, due, writes: AtomicU64::new(0) })
    }

    /// Counts changes of records, and starts a checkpoint when one is due.
    pub(super) fn after_writes(self: &Arc<Self>, count: usize) {
        let count = u64::try_from(count).unwrap_or(EVERY);
        let before = self.writes.fetch_add(count, Ordering::Relaxed);
        if before / EVERY != before.wrapping_add(count) / EVERY {
            self.start();
        }
    }

    /// Starts a checkpoint in the background, after the one that is running if one is.
    pub(super) fn start(self: &Arc<Self>) {
        self.due.store(true, Ordering::Release);
        let Some(running) = self.running.begin() else { return };
        let checkpoints = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "no operation must wait for it; it ends after a few statements"
        )]
        tokio::spawn(async move {
            while checkpoints.due.swap(false, Ordering::AcqRel) {
                // If somebody is in the way, or the disk is full, the next one will do.
                let _ = checkpoints.copy().await;
            }
            drop(running);
            // Somebody may have come between the last look and the end.
            if checkpoints.due.load(Ordering::Acquire) {
                checkpoints.start();
            }
        });
    }

    async fn copy(&self) -> Result<()> {
        if self.pages(COPY).await? > LONG {
            // Most of what came meanwhile in nobody's way too, so that little is left for the last.
            self.pages(COPY).await?;
            self.pages(BEGIN_ANEW).await?;
        }
        Ok(())
    }

    /// Runs a checkpoint and says how long the log was.
    async fn pages(&self, checkpoint: &'static str) -> Result<i64> {
        let answer = self.connection.run(|_| sqlx::query(checkpoint)).await?;
        // Whether somebody was in the way, the pages in the log, and how many of them were copied.
        answer.rows.first().map_or(Ok(0), |row| column(row, 1))
    }

    pub(super) async fn close(&self) -> Result<()> {
        self.connection.close().await
    }
}
