//! Clearing away rows that nobody needs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use distlock_core::{Result, Running};

use super::record::ttl_micros;
use crate::server::connections::Lane;
use crate::server::store::Store;

/// One sweep after this many releases …
const EVERY: u64 = 64;
/// … looks at this many rows: more than were added meanwhile, so that it gets round.
const ROWS: i64 = 256;

/// Sweeps now and then, in the background.
///
/// A row goes when nobody holds the lock, and the server's clock is past its last token by the idle time:
/// then the next token, which is not below that clock, is higher.
#[derive(Debug)]
pub(super) struct Pruner {
    store: Arc<Store>,
    keep_idle: i64,
    releases: AtomicU64,
    sweeping: Running,
    /// Up to where the present round has come.
    at: Mutex<Vec<u8>>,
}

impl Pruner {
    pub(super) fn new(store: Arc<Store>, keep_idle: Duration) -> Arc<Self> {
        Arc::new(Self {
            store,
            keep_idle: ttl_micros(keep_idle),
            releases: AtomicU64::new(0),
            sweeping: Running::default(),
            at: Mutex::new(Vec::new()),
        })
    }

    /// Counts a release, and starts a sweep when one is due.
    pub(super) fn after_release(self: &Arc<Self>) {
        if self.releases.fetch_add(1, Ordering::Relaxed) % EVERY != EVERY - 1 {
            return;
        }
        let Some(running) = self.sweeping.begin() else { return };
        let pruner = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "a release must not wait for the sweep; bounded by the response time-out"
        )]
        tokio::spawn(async move {
            let _running = running;
            // What fails is left to the next sweep.
            let _ = pruner.sweep().await;
        });
    }

    async fn sweep(&self) -> Result<()> {
        let (store, from) = (&self.store, self.position().clone());
        let next = store.sql.prunable.with([from.as_slice().into(), self.keep_idle.into(), ROWS.into()]);
        let next = store.run(Lane::Attempt, next).await?;
        let (mut upto, mut seen, mut any) = (Vec::new(), 0, false);
        if let Some(row) = next.rows.first() {
            upto = row.maybe_bytes(0)?.unwrap_or_default().to_vec();
            (seen, any) = (row.int(1)?, row.int(2)? == 1);
        }
        if any {
            let prune =
                store.sql.prune.with([from.as_slice().into(), upto.as_slice().into(), self.keep_idle.into()]);
            store.run(Lane::Attempt, prune).await?;
        }
        // The end of the table: begin again. A key is never empty, so nothing is left out.
        *self.position() = if seen < ROWS { Vec::new() } else { upto };
        Ok(())
    }

    fn position(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
