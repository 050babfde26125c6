//! The backend: what it promises, and each operation's way into the store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Error, Exclusion, ExpiryClock, Fairness, FenceScope, FencingToken,
    Guarantees, Health, Holder, Lease, LockAdmin, LockBackend, LockKey, LockRecord, LockRequest, Operation,
    Release, Renewal, Result, StoreUrl, Supports, TryLock,
};

use super::config::SqliteConfig;
use super::prune::Pruner;
use super::store::Store;
use super::tokens::TokenReserve;
use super::waiting::Waiting;
use super::{acquire, admin, hand_over, open, probe, release, renew};

const NAME: &str = "sqlite";

/// Locks in an SQLite database file, for all programs of one machine that open it.
///
/// The crate's documentation says what it promises and what it does not. Opening one file more than
/// once in one process is fine; they exclude each other like programs.
#[derive(Debug)]
pub struct SqliteBackend {
    info: BackendInfo,
    store: Arc<Store>,
    tokens: Arc<TokenReserve>,
    waiting: Arc<Waiting>,
    pruner: Arc<Pruner>,
}

impl SqliteBackend {
    /// Opens the database, which is created if the file is missing or empty.
    ///
    /// # Errors
    /// - `InvalidOptions`: the path is no file's, or an option is out of range.
    /// - `Misconfigured`: the folder is missing or on a network file system, or the file is another
    ///   program's, or was made by a newer version.
    /// - `PermissionDenied`: file or folder can't be written.
    /// - `Corrupt`: the database is damaged.
    /// - `Unavailable`: another program kept it locked for longer than `busy_timeout`.
    ///
    /// # Cancel safety
    /// May be dropped at any point; what is half done is rolled back.
    pub async fn connect(config: SqliteConfig) -> Result<Self> {
        Self::open(&config).await.map_err(|error| error.on_backend(NAME).in_operation(Operation::Connect))
    }

    /// Opens the database that a URL names, and takes this backend's options out of it.
    ///
    /// # Errors
    /// `InvalidUrl` as with [`SqliteConfig::from_url`], and as [`SqliteBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`SqliteBackend::connect`].
    pub async fn from_url(url: &mut StoreUrl) -> Result<Self> {
        Self::connect(SqliteConfig::from_url(url)?).await
    }

    /// The database file, as an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.store.file.path()
    }

    /// What every SQLite store promises and can do.
    #[must_use]
    pub fn describe() -> BackendInfo {
        let mut guarantees = Guarantees::single_node();
        guarantees.exclusion = Exclusion::Always;
        guarantees.fencing = FenceScope::Durable;
        guarantees.fairness = Fairness::Fifo;
        guarantees.expiry = ExpiryClock::Holder;
        guarantees.ttl_grain = Duration::from_millis(1);
        guarantees.ttl_min = Duration::from_millis(50);
        let supports = Supports::NONE.push().queue().batch_renew().hand_over().admin().adopt().processes();
        BackendInfo::new(NAME, guarantees, supports)
    }

    async fn open(config: &SqliteConfig) -> Result<Self> {
        let store = Arc::new(open::open(config).await?);
        let tokens = TokenReserve::open(Arc::clone(&store)).await?;
        let waiting = Waiting::new(Arc::clone(&store), config.poll);
        let pruner = Pruner::new(Arc::clone(&store), config.keep_idle);
        Ok(Self { info: Self::describe(), store, tokens, waiting, pruner })
    }

    fn ttl(&self, wish: Duration) -> Result<Duration> {
        self.info.guarantees.effective_ttl(wish)
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let release = release::unlock(&self.store, claim).await?;
        // Whoever waits here is woken now; a claim that did not hold the lock may have been the
        // first in the queue.
        self.waiting.changed();
        if release == Release::Released {
            self.pruner.after_release();
        }
        Ok(release)
    }

    async fn pass_on(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        let ttl = self.ttl(next.ttl)?;
        hand_over::hand_over(&self.store, &self.tokens, lease, next, ttl).await
    }
}

/// Names the operation and the key in an error.
fn during(operation: Operation, key: &LockKey) -> impl Fn(Error) -> Error {
    move |error| error.on_backend(NAME).in_operation(operation).for_key(key)
}

#[async_trait]
impl LockBackend for SqliteBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn clock(&self) -> Clock {
        self.store.machine.clock().clone()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let attempt = async {
            let ttl = self.ttl(request.ttl)?;
            acquire::try_lock(&self.store, &self.tokens, request, ttl).await
        };
        attempt.await.map_err(during(Operation::TryLock, &request.claim.key))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let attempt = async { renew::renew(&self.store, lease, self.ttl(ttl)?).await };
        attempt.await.map_err(during(Operation::Renew, &lease.claim.key))
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.release(claim).await.map_err(during(Operation::Unlock, &claim.key))
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        match self.ttl(ttl) {
            Ok(ttl) => {
                let results = renew::renew_many(&self.store, leases, ttl).await;
                results
                    .into_iter()
                    .zip(leases)
                    .map(|(result, lease)| result.map_err(during(Operation::Renew, &lease.claim.key)))
                    .collect()
            }
            Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.waiting.watch(claim, busy).await.map_err(during(Operation::Watch, &claim.key))
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        self.pass_on(lease, next).await.map_err(during(Operation::HandOver, &lease.claim.key))
    }

    async fn probe(&self) -> Result<Health> {
        let health = probe::probe(&self.store).await;
        health.map_err(|error| error.on_backend(NAME).in_operation(Operation::Probe))
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        Some(self.store.writer.sent() + self.store.reader.sent())
    }

    async fn close(&self) -> Result<()> {
        self.waiting.close();
        let store = &self.store;
        let closed =
            [store.checkpoints.close().await, store.reader.close().await, store.writer.close().await];
        closed
            .into_iter()
            .collect::<Result<()>>()
            .map_err(|error| error.on_backend(NAME).in_operation(Operation::Close))
    }
}

#[async_trait]
impl LockAdmin for SqliteBackend {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        admin::inspect(&self.store, key).await.map_err(during(Operation::Inspect, key))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let records = admin::list(&self.store, prefix, after, limit).await;
        records.map_err(|error| error.on_backend(NAME).in_operation(Operation::List))
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        let victim = admin::force_unlock(&self.store, key).await;
        self.waiting.changed();
        victim.map_err(during(Operation::ForceUnlock, key))
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        let raised = self.tokens.raise_floor(floor).await;
        raised.map_err(|error| error.on_backend(NAME).in_operation(Operation::RaiseTokenFloor))
    }
}
