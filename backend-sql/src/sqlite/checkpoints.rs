//! Copying the write-ahead log into the main file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use distlock_core::Result;

use super::connection::Connection;
use super::running::Running;

/// After this many writes of this program the log is copied. It grows by one to three pages of 4 KiB
/// a write, so it stays at a few MiB.
const EVERY: u64 = 500;

/// Copies the log now and then, on a connection and thread of its own.
///
/// SQLite would do it inside whatever commit comes after the thousandth page, and that operation
/// would wait for the disk: seconds, when the disk is busy with other programs' data, in which no
/// lease of this program could be renewed.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Opened when it is needed first.
    connection: Connection,
    running: Running,
    writes: AtomicU64,
}

impl Checkpoints {
    pub(super) fn new(connection: Connection) -> Arc<Self> {
        Arc::new(Self { connection, running: Running::default(), writes: AtomicU64::new(0) })
    }

    /// Counts a write, and starts a checkpoint when one is due.
    pub(super) fn after_write(self: &Arc<Self>) {
        if self.writes.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1 {
            self.start();
        }
    }

    /// Starts a checkpoint in the background, unless one is running.
    pub(super) fn start(self: &Arc<Self>) {
        if !self.running.begin() {
            return;
        }
        let checkpoints = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "no operation must wait for it; it ends with its one statement"
        )]
        tokio::spawn(async move {
            let _running = checkpoints.running.until_dropped();
            // If somebody is in the way, or the disk is full, the next one will do.
            let _ = checkpoints.connection.run(|_| sqlx::query("PRAGMA wal_checkpoint(PASSIVE)")).await;
        });
    }

    pub(super) async fn close(&self) -> Result<()> {
        self.connection.close().await
    }
}
