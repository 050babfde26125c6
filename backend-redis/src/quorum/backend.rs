//! The backend: what it promises, and each operation's way to the servers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Error, ErrorKind, Exclusion, ExpiryClock, Fairness, FenceScope,
    Guarantees, Health, Lease, LockAdmin, LockBackend, LockKey, LockRequest, Operation, Release, Renewal,
    Result, StoreUrl, Supports, TryLock,
};

use super::node::Node;
use super::{
    Quorum, RedlockOptions, TokenMode, attempt, config, hand_over, probe, release, renewal, waiting,
};
use crate::RedisBackend;
use crate::config::RedisConfig;

/// Locks in a majority of independent Redis or Valkey servers (Redlock), with fencing tokens that the
/// majority agrees on.
///
/// It needs an odd number of servers, at least three, that share nothing, and works as long as a
/// majority of them does. The crate's documentation says what it promises and what it does not.
#[derive(Debug)]
pub struct RedlockBackend {
    pub(super) info: BackendInfo,
    pub(super) quorum: Arc<Quorum>,
}

impl RedlockBackend {
    /// Connects to the servers of these configurations, each a single server. A minority may be down.
    ///
    /// # Errors
    /// - `InvalidOptions`: an option is out of range, the servers are too few or an even number, have different prefixes, or a
    ///   configuration means a Sentinel, a Cluster, a queue or replicas.
    /// - `Misconfigured`: two of them are the same server, or one is unfit as with [`RedisBackend::connect`].
    /// - `Unavailable`: less than a majority can be reached.
    /// - Otherwise as [`RedisBackend::connect`].
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect(
        servers: impl IntoIterator<Item = RedisConfig>,
        options: RedlockOptions,
    ) -> Result<Self> {
        let servers: Vec<_> = servers.into_iter().collect();
        let limit = servers.iter().map(|config| config.connect_timeout + config.response_timeout).max();
        let opened = async {
            let nodes = servers.into_iter().map(Node::unconnected).collect::<Result<Vec<_>>>()?;
            Self::start(nodes, options, limit.unwrap_or_default()).await
        };
        opened.await.map_err(connecting)
    }

    /// Connects to the servers that a URL names, and takes this backend's options out of it:
    /// `redlock://[user[:password]@]host[:port],host[:port],…[/database]`; encrypted with `redlocks://`.
    ///
    /// # Errors
    /// `InvalidUrl` if a part is missing, does not belong there or can't be read; else as
    /// [`RedlockBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`RedlockBackend::connect`].
    pub async fn from_url(url: &mut StoreUrl) -> Result<Self> {
        let (servers, options) = config::from_url(url)?;
        Self::connect(servers, options).await
    }

    /// Uses these backends, each of a single server and without a queue, as the servers of a quorum.
    ///
    /// # Errors
    /// As [`RedlockBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`RedlockBackend::connect`].
    pub async fn from_backends(
        backends: impl IntoIterator<Item = RedisBackend>,
        options: RedlockOptions,
    ) -> Result<Self> {
        let named = |(at, backend)| Node::connected(format!("server {}", at + 1), backend);
        let nodes = backends.into_iter().enumerate().map(named).collect();
        Self::start(nodes, options, Duration::from_secs(2)).await.map_err(connecting)
    }

    /// What a store with these options promises and can do.
    #[must_use]
    pub fn describe(options: &RedlockOptions) -> BackendInfo {
        let mut guarantees = Guarantees::single_node();
        guarantees.exclusion = Exclusion::BetweenFailovers;
        guarantees.fencing = match options.token {
            TokenMode::Agreed => FenceScope::Instance,
            TokenMode::BestEffort => FenceScope::BestEffort,
        };
        guarantees.fairness = Fairness::None;
        guarantees.expiry = ExpiryClock::Server;
        guarantees.ttl_grain = Duration::from_millis(1);
        guarantees.ttl_min = Duration::from_millis(100);
        guarantees.survives_restart = false;
        guarantees.survives_failover = true;
        if !options.restart_holdoff.is_zero() {
            guarantees.ttl_max = options.restart_holdoff;
        }
        let supports = Supports::NONE.push().batch_renew().hand_over().admin().adopt().processes();
        let name = match options.token {
            TokenMode::Agreed => "redlock",
            TokenMode::BestEffort => "redlock-best-effort",
        };
        BackendInfo::new(name, guarantees, supports)
    }

    async fn start(nodes: Vec<Node>, options: RedlockOptions, limit: Duration) -> Result<Self> {
        options.check()?;
        config::count(nodes.len())?;
        if nodes.iter().any(|node| !node.is_plain()) {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                "each server of a quorum is a single one, without Sentinels, Cluster, queue and wait_replicas",
            ));
        }
        let mut names = nodes.iter().map(|node| &node.backend.store.names);
        if names.next().is_some_and(|first| !names.all(|other| first.are_those_of(other))) {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                "all servers of a quorum keep the locks under the same prefix; give one to all of them",
            ));
        }
        let info = Self::describe(&options);
        let quorum = Quorum::new(nodes, options);
        quorum.admit_all(limit).await?;
        Ok(Self { info, quorum })
    }

    fn ttl(&self, wish: Duration) -> Result<Duration> {
        self.info.guarantees.effective_ttl(wish)
    }

    /// Names the operation and the key in an error.
    pub(super) fn during(&self, operation: Operation, key: &LockKey) -> impl Fn(Error) -> Error {
        let name = self.info.name;
        move |error| error.on_backend(name).in_operation(operation).for_key(key)
    }
}

fn connecting(error: Error) -> Error {
    error.on_backend("redlock").in_operation(Operation::Connect)
}

#[async_trait]
impl LockBackend for RedlockBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn clock(&self) -> Clock {
        self.quorum.clock.clone()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let attempt = async { attempt::try_lock(&self.quorum, request, self.ttl(request.ttl)?).await };
        attempt.await.map_err(self.during(Operation::TryLock, &request.claim.key))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let result = self.renew_many(std::slice::from_ref(lease), ttl).await.pop();
        result.unwrap_or_else(crate::error::unreadable)
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        release::unlock(&self.quorum, claim).await.map_err(self.during(Operation::Unlock, &claim.key))
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let results = match self.ttl(ttl) {
            Ok(ttl) => renewal::renew_many(&self.quorum, leases, ttl).await,
            Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
        };
        let named = |(result, lease): (Result<Renewal>, &Lease)| {
            result.map_err(self.during(Operation::Renew, &lease.claim.key))
        };
        results.into_iter().zip(leases).map(named).collect()
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        let passing = async {
            let ttl = self.ttl(next.ttl)?;
            hand_over::hand_over(&self.quorum, lease, next, ttl).await
        };
        passing.await.map_err(self.during(Operation::HandOver, &next.claim.key))
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        waiting::watch(&self.quorum, claim, busy).await.map_err(self.during(Operation::Watch, &claim.key))
    }

    async fn probe(&self) -> Result<Health> {
        let health = probe::probe(&self.quorum).await;
        health.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::Probe))
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        Some(self.quorum.nodes.iter().map(|node| node.backend.store.sent()).sum())
    }

    async fn close(&self) -> Result<()> {
        for node in &self.quorum.nodes {
            node.backend.close().await?;
        }
        Ok(())
    }
}
