//! Clearing away records that nobody needs.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock_core::{Result, Running};

use super::machine::{Moment, micros};
use super::record::column;
use super::store::Store;

/// One sweep after this many releases …
const EVERY: u64 = 64;
/// … looks at this many records: more than were added meanwhile, so that it gets round.
const RECORDS: i64 = 256;

/// The next records of the round, and whether they can go: nobody holds them, and the wall clock is
/// past their last token by the idle time.
const NEXT: &str = "SELECT l.key, l.token < ?3
   AND (l.owner IS NULL OR (l.epoch = ?4 AND l.deadline <= ?5))
   FROM distlock_locks l WHERE l.key > ?1 ORDER BY l.key LIMIT ?2";

const ANY_DEAD_WAITERS: &str = "SELECT 1 FROM distlock_claims c
 WHERE c.token IS NULL AND c.epoch = ?1 AND c.deadline <= ?2 LIMIT 1";

/// Comes before [`PRUNE`], so that no token of a record that goes can come again, even if the wall
/// clock is set back later.
const RAISE_FLOOR: &str = "UPDATE distlock_meta SET token_floor = max(token_floor, ?1) WHERE id = 1";

const PRUNE: &str = "DELETE FROM distlock_locks
 WHERE key > ?1 AND key <= ?2 AND token > 0 AND token < ?3
   AND token <= (SELECT m.token_floor FROM distlock_meta m WHERE m.id = 1)
   AND ((owner IS NULL AND deadline IS NULL)
     OR (epoch = ?4 AND deadline <= ?5 AND deadline > 0 AND ttl > 0 AND length(owner) = 16))";

const FORGET_DEAD_WAITERS: &str =
    "DELETE FROM distlock_claims WHERE token IS NULL AND epoch = ?1 AND deadline <= ?2";

/// Sweeps now and then, in the background.
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
            keep_idle: micros(keep_idle),
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
            reason = "a release must not wait for the sweep; bounded by the busy time-out"
        )]
        tokio::spawn(async move {
            let _running = running;
            // What fails is left to the next sweep.
            let _ = pruner.sweep().await;
        });
    }

    async fn sweep(&self) -> Result<()> {
        let store = &self.store;
        let from = self.at.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let bound = store.machine.moment().wall_micros.saturating_sub(self.keep_idle);
        let next = store
            .read(|moment| {
                sqlx::query(NEXT)
                    .bind(from.clone())
                    .bind(RECORDS)
                    .bind(bound)
                    .bind(store.machine.epoch())
                    .bind(moment.nanos())
            })
            .await?;
        let upto = next.rows.last().map(|row| column::<Vec<u8>>(row, 0)).transpose()?.unwrap_or_default();
        let mut any = false;
        for row in &next.rows {
            any |= column::<Option<bool>>(row, 1)?.unwrap_or(false);
        }
        if any {
            store.write(|_| sqlx::query(RAISE_FLOOR).bind(bound)).await?;
            store
                .write(|moment| {
                    sqlx::query(PRUNE)
                        .bind(from.clone())
                        .bind(upto.clone())
                        .bind(bound)
                        .bind(store.machine.epoch())
                        .bind(moment.nanos())
                })
                .await?;
        }
        // The end of the table: begin again. A key is never empty, so nothing is left out.
        let is_end = i64::try_from(next.rows.len()).is_ok_and(|rows| rows < RECORDS);
        *self.at.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
            if is_end { Vec::new() } else { upto };
        self.forget_dead_waiters().await
    }

    async fn forget_dead_waiters(&self) -> Result<()> {
        let store = &self.store;
        let statement = |sql: &'static str| {
            move |moment: Moment| sqlx::query(sql).bind(store.machine.epoch()).bind(moment.nanos())
        };
        if !store.read(statement(ANY_DEAD_WAITERS)).await?.rows.is_empty() {
            store.write(statement(FORGET_DEAD_WAITERS)).await?;
        }
        Ok(())
    }
}
