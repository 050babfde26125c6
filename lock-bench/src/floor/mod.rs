//! The least that a safe lock costs on a store: its bare statements, queued in process.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod connections;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "etcd")]
mod etcd_lock_service;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redlock;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite_log;
#[cfg(feature = "zk")]
mod zk;

use std::iter;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};
use std::time::{Duration, Instant};

use distlock::{Error, ErrorKind, Result, StoreUrl};
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

#[cfg(feature = "etcd")]
pub(crate) use self::etcd::EtcdFloor;
#[cfg(feature = "etcd")]
pub(crate) use self::etcd_lock_service::EtcdLockService;
pub(crate) use self::memory::MemoryFloor;
#[cfg(feature = "mysql")]
pub(crate) use self::mysql::MySqlFloor;
#[cfg(feature = "postgres")]
pub(crate) use self::postgres::PostgresFloor;
#[cfg(feature = "redis")]
pub(crate) use self::redis::RedisFloor;
#[cfg(feature = "redis")]
pub(crate) use self::redlock::RedlockFloor;
#[cfg(feature = "sqlite")]
pub(crate) use self::sqlite::SqliteFloor;
#[cfg(feature = "zk")]
pub(crate) use self::zk::ZkFloor;
use crate::latency::Latency;
use crate::options::Params;

/// The bare statements of a lock on one connection. Contenders queue for it in process.
pub(crate) trait Floor: Send + Sized + 'static {
    /// Pairs timed together when nobody contends; more than one where a clock reading would count.
    const PAIRS_PER_READING: u32;
    /// Opens a connection beside the store at `url`, set up like the backend's.
    async fn open(url: &StoreUrl) -> Result<Self>;

    /// The same connection for one more key, if several can work on it at once.
    fn another(&self) -> Option<Self>;

    /// Takes the lock of contender number `lane`; an error if it is not free.
    fn acquire(&mut self, lane: usize) -> impl Future<Output = Result<()>> + Send;

    /// Gives it back.
    fn release(&mut self, lane: usize) -> impl Future<Output = Result<()>> + Send;
}

/// What is measured beside the client, in turn with it.
pub(crate) trait Beside: Send + Sync {
    /// Lets all contenders work for `length`.
    fn round(&self, length: Duration) -> BoxFuture<'_, Result<()>>;

    /// Takes out what was measured since the last time.
    fn take(&self) -> BareTally;
}

/// The contenders of a scenario, working with bare statements.
#[derive(Debug)]
pub(crate) struct Bare<F> {
    lanes: Vec<Arc<Mutex<F>>>,
    one_key: bool,
    params: Params,
    tally: Arc<StdMutex<BareTally>>,
}

/// What rounds of bare statements gave.
#[derive(Debug)]
pub(crate) struct BareTally {
    pub(crate) latency: Latency,
    pub(crate) operations: u64,
}

impl BareTally {
    fn new() -> Self {
        Self { latency: Latency::new(), operations: 0 }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.operations += other.operations;
    }

    fn note(&mut self, latency: Duration, operations: u32) {
        self.latency.record(latency);
        self.operations += u64::from(operations);
    }
}

impl<F: Floor> Bare<F> {
    pub(crate) async fn open(url: &StoreUrl, params: Params, one_key: bool) -> Result<Self> {
        let first = F::open(url).await?;
        let keys = if one_key { 1 } else { params.contenders };
        let more: Vec<_> = (1..keys).map_while(|_| first.another()).collect();
        let lanes = iter::once(first).chain(more).map(|lane| Arc::new(Mutex::new(lane))).collect();
        Ok(Self { lanes, one_key, params, tally: Arc::new(StdMutex::new(BareTally::new())) })
    }

    async fn work(&self, length: Duration) -> Result<()> {
        let until = Instant::now() + length;
        let alone = self.lanes.len() == self.params.contenders
            && self.params.hold.is_zero()
            && self.params.think.is_zero();
        let batch = if alone { F::PAIRS_PER_READING } else { 1 };
        let mut tasks = JoinSet::new();
        for contender in 0..self.params.contenders {
            let connection = Arc::clone(&self.lanes[contender % self.lanes.len()]);
            let lane = if self.one_key { 0 } else { contender };
            tasks.spawn(work(connection, lane, self.params, batch, until, Arc::clone(&self.tally)));
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(ended)??;
        }
        Ok(())
    }
}

impl<F: Floor> Beside for Bare<F> {
    fn round(&self, length: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.work(length))
    }

    fn take(&self) -> BareTally {
        std::mem::replace(&mut *lock(&self.tally), BareTally::new())
    }
}

fn lock(tally: &StdMutex<BareTally>) -> StdMutexGuard<'_, BareTally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn work<F: Floor>(
    connection: Arc<Mutex<F>>,
    lane: usize,
    params: Params,
    batch: u32,
    until: Instant,
    tally: Arc<StdMutex<BareTally>>,
) -> Result<()> {
    loop {
        let called = Instant::now();
        if called >= until {
            return Ok(());
        }
        for _ in 0..batch {
            let mut connection = connection.lock().await;
            connection.acquire(lane).await?;
            pause(params.hold).await;
            connection.release(lane).await?;
        }
        let latency = called.elapsed().saturating_sub(params.hold) / batch;
        lock(&tally).note(latency, batch);
        think(params.think, params.contenders == 1).await;
    }
}

/// Sleeps, at least so long.
pub(crate) async fn pause(length: Duration) {
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
}

/// Pauses between two rounds. A contender beside others lets them have their turn even without a
/// pause: on a store inside the process it would otherwise never wait for anything.
pub(crate) async fn think(length: Duration, alone: bool) {
    pause(length).await;
    if length.is_zero() && !alone {
        tokio::task::yield_now().await;
    }
}

/// A contender's task that did not come to its end.
pub(crate) fn ended(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Other, "a contender of the benchmark broke off; see its message").caused_by(error)
}
