//! Connections to the server: our own, or those of the application's pool.

mod borrowed;
mod checkout;
mod line;
mod opening;
mod openings;
mod places;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock_core::{Backoff, Clock, Deadline, Timers};
use sqlx::{Connection, Pool};

use super::config::ServerConfig;
use super::dialect::{Dialect, Given, Then};
use super::error::{Doing, Trouble, classify, late};
use super::statement::{Answer, Statement};
use crate::outlasting::Outlasting;
use checkout::Idle;
pub(crate) use line::{Line, Plain};
pub(crate) use opening::Opener;
use openings::Openings;
use places::Places;

/// How many connections of our own stand beside an application's pool, for renewing and unlocking while
/// the application has all of the pool in use.
const BESIDE_A_POOL: u32 = 2;

/// Which connections a call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// All but those that are kept for the other lane.
    Attempt,
    /// All: for what keeps and frees locks.
    Upkeep,
}

/// Where statements are sent.
///
/// Calls go on when their callers are dropped, so that none stops the driver midway, and all end within
/// the response time-out; an opening goes on even longer, for the next call. A connection that something went wrong with is not
/// used again.
pub(crate) struct Connections<D: Dialect> {
    opener: Opener<D>,
    /// The application's pool.
    pool: Option<Pool<D>>,
    /// One for each connection of our own.
    places: Places<Idle<D>>,
    openings: Openings,
    response_timeout: Duration,
    pub(crate) clock: Clock,
    timers: Timers,
    sent: AtomicU64,
}

impl<D: Dialect> Connections<D> {
    /// Connections of our own.
    pub(crate) fn new(config: &ServerConfig, opener: Opener<D>) -> Arc<Self> {
        let kept = (config.connections / 4).max(1);
        Self::with(config, opener, None, config.connections, config.connections - kept)
    }

    /// The connections of the application's pool, and a few of our own beside them.
    pub(crate) fn from_pool(config: &ServerConfig, opener: Opener<D>, pool: Pool<D>) -> Arc<Self> {
        Self::with(config, opener, Some(pool), BESIDE_A_POOL, 0)
    }

    fn with(
        config: &ServerConfig,
        opener: Opener<D>,
        pool: Option<Pool<D>>,
        all: u32,
        attempts: u32,
    ) -> Arc<Self> {
        Arc::new(Self {
            opener,
            pool,
            places: Places::new(all as usize, attempts as usize),
            openings: Openings::new(),
            response_timeout: config.response_timeout,
            clock: Clock::system(),
            timers: Timers::new(),
            sent: AtomicU64::new(0),
        })
    }

    /// How connections are opened.
    pub(crate) const fn opener(&self) -> &Opener<D> {
        &self.opener
    }

    /// How many statements were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Runs one statement, again and again while others are in the way, and once more on another
    /// connection if the one it was sent on had been closed by the server. So it must be one that may
    /// be repeated.
    pub(crate) fn run(
        self: &Arc<Self>,
        lane: Lane,
        statement: Statement,
    ) -> Outlasting<Result<Answer, Trouble>> {
        let this = Arc::clone(self);
        Outlasting::new(async move { this.run_to_the_end(lane, statement).await })
    }

    /// Runs statements without values, one after the other, on one connection.
    pub(crate) fn run_script(self: &Arc<Self>, script: String) -> Outlasting<Result<(), Trouble>> {
        let this = Arc::clone(self);
        Outlasting::new(async move {
            let deadline = Deadline::after(&this.clock, this.response_timeout);
            let mut checkout = this.check_out(Lane::Attempt, deadline).await?;
            // Creating tables may wait for other programs that do the same.
            let limit = this.response_timeout.max(Duration::from_secs(10));
            let run = within(limit, D::run_script(checkout.connection(), &script)).await;
            match run.ok_or_else(|| late(Doing::Running))? {
                Ok(()) => {
                    checkout.is_fit();
                    Ok(())
                }
                // What it had begun is rolled back with the connection.
                Err(error) => Err(classify::<D>(error, Doing::Running)),
            }
        })
    }

    /// Closes our own connections; later calls fail with `Shutdown`. The application's pool stays open.
    pub(crate) async fn close(&self) {
        self.places.close();
        let closing = self.places.take_idle().into_iter().map(|idle| idle.connection.close());
        // The server finds out by itself when it does not answer.
        let _ = within(self.response_timeout, futures_util::future::join_all(closing)).await;
    }

    async fn run_to_the_end(self: Arc<Self>, lane: Lane, statement: Statement) -> Result<Answer, Trouble> {
        let mut was_repeated = false;
        let run = self.run_repeatedly(lane, &statement, &mut was_repeated).await;
        // Whatever went wrong the second time, the first may have been run.
        run.map_err(|trouble| if was_repeated { trouble.in_doubt() } else { trouble })
    }

    async fn run_repeatedly(
        self: &Arc<Self>,
        lane: Lane,
        statement: &Statement,
        was_repeated: &mut bool,
    ) -> Result<Answer, Trouble> {
        let deadline = Deadline::after(&self.clock, self.response_timeout);
        let mut pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(32));
        loop {
            let mut checkout = self.check_out(lane, deadline).await?;
            self.sent.fetch_add(1, Ordering::Relaxed);
            // Not before: a time read while waiting for a connection would be stale for no reason.
            let sent = self.clock.now();
            let left = deadline.instant().since(sent);
            let run = self.timers.limit(left, D::run(checkout.connection(), statement)).await;
            let error = match run.ok_or_else(|| late(Doing::Running))? {
                Ok(given) => {
                    checkout.is_fit();
                    let Given { rows, matched, number } = given;
                    return Ok(Answer { sent, rows, matched, number, was_repeated: *was_repeated });
                }
                Err(error) => error,
            };
            let trouble = classify::<D>(error, Doing::Running);
            match trouble.then {
                // Once more if that fits in, should it take as long.
                Then::Again if deadline.remaining(&self.clock) > Some(self.clock.now().since(sent)) => {
                    checkout.is_fit();
                    drop(checkout);
                    tokio::time::sleep(pauses.pause()).await;
                }
                // Probably closed while nobody used it, as the others that lie idle.
                Then::Close if checkout.was_idle && !*was_repeated => {
                    drop(self.places.take_idle());
                    *was_repeated = true;
                }
                Then::Close => return Err(trouble),
                _ => {
                    checkout.is_fit();
                    return Err(trouble);
                }
            }
        }
    }
}

impl<D: Dialect> fmt::Debug for Connections<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("backend", &D::BACKEND)
            .field("idle", &self.places.idle())
            .field("is_pool", &self.pool.is_some())
            .finish_non_exhaustive()
    }
}

/// What the future gives within `limit`.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = tokio::time::sleep(limit) => None,
    }
}
