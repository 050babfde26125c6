//! Tokens that a power cut can't bring back.
//!
//! Commits of leases are not synced one by one, so a power cut can take the last of them back, and
//! with a clock that was set back as well a token could come a second time. Hence a reserve: a number
//! that is on the disk before any token near it is granted, and that later grants start above when
//! the machine was booted anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use distlock_core::{Error, ErrorKind, FencingToken, Result, Running};
use tokio::sync::Mutex;

use super::look::no_bounds;
use super::machine::Moment;
use super::record::column;
use super::store::Store;

/// How many tokens are reserved at a time: a minute's worth, since tokens follow the wall clock in
/// microseconds. So a busy store syncs for its tokens once a minute, and a reboot makes them jump
/// ahead of the clock by a minute at most.
const BLOCK: i64 = 60_000_000;

const BOUNDS: &str = "SELECT token_floor, token_ceiling FROM distlock_meta WHERE id = 1";

/// Goes to the disk.
const RESERVE: &str = "UPDATE distlock_meta SET token_reserve = max(token_reserve, ?1) WHERE id = 1";

/// Makes use of what is on the disk. In a commit of its own: a program that is killed in the middle
/// of writing the reserve may leave it readable for others but not on the disk.
const MAKE_USE: &str = "UPDATE distlock_meta SET token_ceiling = max(token_ceiling, ?1)
 WHERE id = 1 AND token_reserve >= ?1 RETURNING token_ceiling";

const RAISE_FLOOR: &str = "UPDATE distlock_meta SET token_floor = max(token_floor, ?1) WHERE id = 1";

/// The store's bounds at one moment.
struct Bounds {
    floor: i64,
    ceiling: i64,
    read: Moment,
}

/// Whether so little of the supply is left behind `token` that more should be reserved.
const fn is_low(ceiling: i64, token: i64) -> bool {
    ceiling.saturating_sub(token) < BLOCK / 2
}

/// The supply of tokens.
#[derive(Debug)]
pub(super) struct TokenReserve {
    store: Arc<Store>,
    /// The highest token that was usable when the bounds were read last. Only a hint.
    ceiling: AtomicI64,
    /// The lowest token that may do for every key, as far as this program has seen: above the floor
    /// and its own grants. Usually the wall clock is ahead of it.
    least: AtomicI64,
    /// One reservation at a time.
    reserving: Mutex<()>,
    ahead: Running,
}

impl TokenReserve {
    /// The supply of a store that was just opened, filled for the first grant.
    pub(super) async fn open(store: Arc<Store>) -> Result<Arc<Self>> {
        let tokens = Arc::new(Self {
            store,
            ceiling: AtomicI64::new(0),
            least: AtomicI64::new(1),
            reserving: Mutex::new(()),
            ahead: Running::default(),
        });
        tokens.top_up(0).await?;
        Ok(tokens)
    }

    /// The token to try at least. One that is too low is refused by the statement that grants.
    pub(super) fn least(&self) -> i64 {
        self.least.load(Ordering::Acquire)
    }

    /// Takes in that a grant needs token `wanted`, of which the usable ones went up to `ceiling`.
    pub(super) async fn need(&self, wanted: i64, ceiling: i64) -> Result<()> {
        self.ceiling.fetch_max(ceiling, Ordering::AcqRel);
        if wanted > ceiling {
            let _one = self.reserving.lock().await;
            // Somebody else may have been faster.
            if self.bounds().await?.ceiling < wanted {
                self.reserve_block(wanted).await?;
            }
        }
        self.least.fetch_max(wanted, Ordering::AcqRel);
        Ok(())
    }

    /// Takes in that `token` was granted, and reserves in the background if the supply behind it
    /// runs low.
    pub(super) fn granted(self: &Arc<Self>, token: FencingToken) {
        let token = token.get_i64();
        self.least.fetch_max(token.saturating_add(1), Ordering::AcqRel);
        self.keep_ahead_of(token);
    }

    fn keep_ahead_of(self: &Arc<Self>, token: i64) {
        if !is_low(self.ceiling.load(Ordering::Acquire), token) {
            return;
        }
        let Some(running) = self.ahead.begin() else { return };
        let tokens = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "a grant must not wait for the disk; bounded by the busy time-out"
        )]
        tokio::spawn(async move {
            // What fails here is tried again, and reported, by the grant that finds no token.
            let reserved = tokens.top_up(token).await.is_ok();
            drop(running);
            // Later grants may have come while this ran, and left it to this.
            let last = tokens.least();
            if reserved && last > token.saturating_add(1) {
                tokens.keep_ahead_of(last);
            }
        });
    }

    /// Lifts every later token above `floor`, on the disk.
    pub(super) async fn raise_floor(&self, floor: FencingToken) -> Result<()> {
        let floor = floor.get_i64();
        if floor >= i64::MAX - 2 * BLOCK {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                format!(
                    "a token floor of {floor} leaves no token above it; choose one below {}",
                    i64::MAX - 2 * BLOCK
                ),
            ));
        }
        let answer = self.store.write_durably(move |_| sqlx::query(RAISE_FLOOR).bind(floor)).await?;
        if answer.changed == 0 {
            return Err(no_bounds());
        }
        self.top_up(floor).await
    }

    async fn top_up(&self, token: i64) -> Result<()> {
        let _one = self.reserving.lock().await;
        // Another program may have been faster.
        let bounds = self.bounds().await?;
        let least = token.max(bounds.floor).saturating_add(1);
        self.least.fetch_max(least, Ordering::AcqRel);
        let next = least.max(bounds.read.wall_micros);
        if is_low(bounds.ceiling, next) { self.reserve_block(next).await } else { Ok(()) }
    }

    /// Reads the bounds. What was known before does not count: the row may have been made anew.
    async fn bounds(&self) -> Result<Bounds> {
        let answer = self.store.read(|_| sqlx::query(BOUNDS)).await?;
        let Some(row) = answer.rows.first() else { return Err(no_bounds()) };
        let bounds = Bounds { floor: column(row, 0)?, ceiling: column(row, 1)?, read: answer.sent };
        self.ceiling.store(bounds.ceiling, Ordering::Release);
        Ok(bounds)
    }

    async fn reserve_block(&self, wanted: i64) -> Result<()> {
        let Some(upto) = wanted.checked_add(BLOCK) else {
            return Err(Error::new(
                ErrorKind::Misconfigured,
                "the tokens of this database have come to their end; move the file away and start a new one",
            ));
        };
        self.store.write_durably(move |_| sqlx::query(RESERVE).bind(upto)).await?;
        let answer = self.store.write(|_| sqlx::query(MAKE_USE).bind(upto)).await?;
        let Some(row) = answer.rows.first() else { return Err(no_bounds()) };
        self.ceiling.fetch_max(column::<i64>(row, 0)?, Ordering::AcqRel);
        // So that a copy of the main file alone soon knows the reserve as well.
        self.store.checkpoints.start();
        Ok(())
    }
}
