//! The backend: what it promises, and each operation's way into the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Error, Exclusion, ExpiryClock, Fairness, FenceScope, Guarantees, Health,
    Lease, LockAdmin, LockBackend, LockKey, LockRequest, Operation, Release, Renewal, Result, StoreUrl,
    Supports, TryLock,
};
use redis::aio::ConnectionManager;

use crate::config::{RedisConfig, Topology};
use crate::connection::{Cluster, Link, Opener, Sentinel, Server, Shared};
use crate::error::unreadable;
use crate::names::Names;
use crate::store::Store;
use crate::waiting::Waiting;
use crate::{acquire, hand_over, probe, release, renew};

/// Leases renewed together in a Cluster: each slot costs a script, whether for one lease or for hundreds.
const CLUSTER_RENEWALS: usize = 16_384;

/// Locks in Redis or Valkey.
///
/// The crate's documentation says what it promises and what it does not.
#[derive(Debug)]
pub struct RedisBackend {
    pub(crate) info: BackendInfo,
    pub(crate) store: Arc<Store>,
    pub(crate) waiting: Arc<Waiting>,
    /// For how long one sign of life keeps a place in the queue, if there is one.
    liveness: Option<Duration>,
}

impl RedisBackend {
    /// Connects, and asks the server for a sign of life.
    ///
    /// # Errors
    /// - `InvalidOptions`: an option is out of range, or two contradict each other.
    /// - `FeatureDisabled`: encryption is asked for, and the feature `tls` is off.
    /// - `Unavailable`: the server can't be reached.
    /// - `PermissionDenied`: it refuses the credentials, or the right to do what locks need.
    /// - `Misconfigured`: it is older than Redis 6, a replica, or throws keys away when it is full
    ///   ([`RedisConfig::allow_eviction`]); or the files for encryption, or its certificate, won't do.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect(config: RedisConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            Self::start(&config, link(&config)?).await
        };
        opened.await.map_err(|error| connecting(&config.topology, error))
    }

    /// Connects to the store that a URL names, and takes this backend's options out of it.
    ///
    /// # Errors
    /// `InvalidUrl` as with [`RedisConfig::from_url`], and as [`RedisBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`RedisBackend::connect`].
    pub async fn from_url(url: &mut StoreUrl) -> Result<Self> {
        Self::connect(RedisConfig::from_url(url)?).await
    }

    /// Connects where `client` does, with its address, credentials and encryption. Of `config`, prefix,
    /// time-outs, queue, `credentials` and `allow_eviction` count.
    ///
    /// # Errors
    /// As [`RedisBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`RedisBackend::connect`].
    pub async fn from_client(client: &redis::Client, config: RedisConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            Self::start(&config, Arc::new(Server::new(Opener::from_client(&config, client)?))).await
        };
        opened.await.map_err(|error| connecting(&Topology::Single, error))
    }

    /// Sends commands through the application's own connection manager, made from `client`. Waiting
    /// for releases takes a connection of its own, which is opened when somebody waits.
    ///
    /// The manager's settings stay the application's. Give it a short list of retries: while it
    /// connects anew, commands wait for it up to `response_timeout`. A blocking command of the
    /// application delays the locks behind it.
    ///
    /// # Errors
    /// As [`RedisBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`RedisBackend::connect`].
    pub async fn from_connection_manager(
        manager: ConnectionManager,
        client: &redis::Client,
        config: RedisConfig,
    ) -> Result<Self> {
        let opened = async {
            config.check()?;
            Self::start(&config, Arc::new(Shared::new(manager, Opener::from_client(&config, client)?))).await
        };
        opened.await.map_err(|error| connecting(&Topology::Single, error))
    }

    /// What a store of this topology promises and can do without a queue.
    #[must_use]
    pub fn describe(topology: &Topology) -> BackendInfo {
        let mut guarantees = Guarantees::single_node();
        guarantees.exclusion = match topology {
            Topology::Single => Exclusion::WhileDataLives,
            Topology::Sentinel { .. } | Topology::Cluster => Exclusion::BetweenFailovers,
        };
        guarantees.fencing = FenceScope::Instance;
        guarantees.fairness = Fairness::None;
        guarantees.expiry = ExpiryClock::Server;
        guarantees.ttl_grain = Duration::from_millis(1);
        guarantees.ttl_min = Duration::from_millis(100);
        guarantees.survives_restart = false;
        let supports = Supports::NONE.push().batch_renew().hand_over().admin().adopt().processes();
        let info = BackendInfo::new(name(topology), guarantees, supports);
        match topology {
            Topology::Cluster => info.renew_batch(CLUSTER_RENEWALS),
            _ => info,
        }
    }

    /// What a store of this topology promises and can do if it keeps a queue.
    #[must_use]
    pub fn describe_queue(topology: &Topology) -> BackendInfo {
        let mut info = Self::describe(topology);
        info.name = match topology {
            Topology::Single => "redis-queue",
            Topology::Sentinel { .. } => "redis-sentinel-queue",
            Topology::Cluster => "redis-cluster-queue",
        };
        info.guarantees.fairness = Fairness::Fifo;
        info.supports = info.supports.queue();
        info
    }

    async fn start(config: &RedisConfig, link: Arc<dyn Link>) -> Result<Self> {
        Ok(Self::of(config, connected(config, link).await?))
    }

    /// A backend that connects when it is used, and has not looked at its server.
    pub(crate) fn unconnected(config: &RedisConfig) -> Result<Self> {
        config.check()?;
        Ok(Self::of(config, Store::new(link(config)?, names(config), config.wait_replicas)))
    }

    fn of(config: &RedisConfig, store: Arc<Store>) -> Self {
        let waiting = Waiting::new(Arc::clone(&store));
        let info = if config.queue {
            Self::describe_queue(&config.topology)
        } else {
            Self::describe(&config.topology)
        };
        Self { info, store, waiting, liveness: config.queue.then_some(config.waiter_liveness) }
    }

    fn ttl(&self, wish: Duration) -> Result<Duration> {
        self.info.guarantees.effective_ttl(wish)
    }

    /// Names the operation and the key in an error.
    pub(crate) fn during(&self, operation: Operation, key: &LockKey) -> impl Fn(Error) -> Error {
        let name = self.info.name;
        move |error| error.on_backend(name).in_operation(operation).for_key(key)
    }

    async fn renew_all(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        match self.ttl(ttl) {
            Ok(ttl) => renew::renew_many(&self.store, leases, ttl).await,
            Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// A store that gave a sign of life and is fit for locks.
pub(crate) async fn connected(config: &RedisConfig, link: Arc<dyn Link>) -> Result<Arc<Store>> {
    let store = Store::new(link, names(config), config.wait_replicas);
    store.command(&redis::cmd("PING")).await?;
    probe::refuse_unfit(&store, config).await?;
    Ok(store)
}

/// The way to the servers of a configuration.
pub(crate) fn link(config: &RedisConfig) -> Result<Arc<dyn Link>> {
    Ok(match &config.topology {
        // A configuration that was checked names a server.
        Topology::Single => Arc::new(Server::new(Opener::new(config, &config.servers[0])?)),
        Topology::Sentinel { master } => Arc::new(Sentinel::new(config, master)?),
        Topology::Cluster => Arc::new(Cluster::new(config, &names(config))?),
    })
}

fn names(config: &RedisConfig) -> Names {
    match config.topology {
        Topology::Cluster => Names::in_groups(&config.prefix),
        _ => Names::new(&config.prefix),
    }
}

pub(crate) const fn name(topology: &Topology) -> &'static str {
    match topology {
        Topology::Single => "redis",
        Topology::Sentinel { .. } => "redis-sentinel",
        Topology::Cluster => "redis-cluster",
    }
}

pub(crate) fn connecting(topology: &Topology, error: Error) -> Error {
    error.on_backend(name(topology)).in_operation(Operation::Connect)
}

#[async_trait]
impl LockBackend for RedisBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn clock(&self) -> Clock {
        self.store.clock.clone()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let attempt = async {
            let ttl = self.ttl(request.ttl)?;
            acquire::try_lock(&self.store, &self.waiting, request, ttl, self.liveness).await
        };
        attempt.await.map_err(self.during(Operation::TryLock, &request.claim.key))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let result = self.renew_all(std::slice::from_ref(lease), ttl).await.pop();
        result.unwrap_or_else(unreadable).map_err(self.during(Operation::Renew, &lease.claim.key))
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let mut successor = None;
        if self.liveness.is_some() {
            self.waiting.leaves_queue(claim.owner);
            // A grant that has to reach replicas is asked for by its owner.
            if self.store.wait_replicas == 0 {
                successor = self.waiting.successor(claim);
            }
        }
        let release = release::unlock(&self.store, claim, successor).await;
        release.map_err(self.during(Operation::Unlock, &claim.key))
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let results = self.renew_all(leases, ttl).await;
        let named = |(result, lease): (Result<Renewal>, &Lease)| {
            result.map_err(self.during(Operation::Renew, &lease.claim.key))
        };
        results.into_iter().zip(leases).map(named).collect()
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.waiting.watch(claim, busy).await.map_err(self.during(Operation::Watch, &claim.key))
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        let passing = async {
            let ttl = self.ttl(next.ttl)?;
            hand_over::hand_over(&self.store, lease, next, ttl).await
        };
        passing.await.map_err(self.during(Operation::HandOver, &lease.claim.key))
    }

    async fn probe(&self) -> Result<Health> {
        let health = probe::probe(&self.store).await;
        health.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::Probe))
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        Some(self.store.sent())
    }

    async fn close(&self) -> Result<()> {
        self.waiting.close();
        self.store.link.close();
        Ok(())
    }
}

impl Drop for RedisBackend {
    fn drop(&mut self) {
        // The task that listens would otherwise go on for a while.
        self.waiting.close();
    }
}
