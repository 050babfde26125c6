//! The backend: each operation's way into the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Error, Health, Lease, LockAdmin, LockBackend, LockKey, LockRequest,
    Operation, Release, Renewal, Result, Timers, TryLock,
};

use super::prune::Pruner;
use super::{Together, acquire, hand_over, probe, release, renew};
use crate::server::config::ServerConfig;
use crate::server::store::Store;
use crate::server::waiting::Waiting;
use crate::server::{Connections, Dialect, Tables, describe, schema};

/// Locks in a database server, as rows of a table with a time to live.
///
/// Made by [`postgres::connect`](crate::postgres::connect) and its like. The crate's documentation says
/// what it promises and what it does not.
#[derive(Debug)]
pub struct LeaseRows {
    pub(super) info: BackendInfo,
    pub(super) store: Arc<Store>,
    waiting: Waiting,
    pruner: Arc<Pruner>,
}

impl LeaseRows {
    /// Sees that the server is there, and the tables too.
    pub(crate) async fn start<D: Dialect>(
        config: ServerConfig,
        connections: Arc<Connections<D>>,
    ) -> Result<Self> {
        let tables = Tables::new(&config, D::QUOTE);
        let mut store = Store {
            calls: connections,
            sql: D::statements(&tables),
            channel: tables.channel(),
            may_create: config.create,
            gathers: false,
            acquiring: Together::default(),
            releasing: Together::default(),
            timers: Timers::new(),
            response_timeout: config.response_timeout,
        };
        store.gathers = schema::ensure(&store).await?;
        let store = Arc::new(store);
        let pruner = Pruner::new(Arc::clone(&store), config.keep_idle);
        // Nobody can listen through a pooler.
        let pushes = D::PUSHES && !config.pooled;
        let waiting = Waiting::new(&store, pushes, config.poll);
        Ok(Self { info: describe(D::BACKEND, pushes), store, waiting, pruner })
    }

    /// Creates what is missing of the tables, and closes the connections.
    pub(crate) async fn create_schema(&self) -> Result<()> {
        let created = schema::create(&self.store).await;
        self.store.calls.close().await;
        created.map(drop)
    }

    fn ttl(&self, wish: Duration) -> Result<Duration> {
        self.info.guarantees.effective_ttl(wish)
    }

    /// Names the operation and the key in an error.
    pub(super) fn during(&self, operation: Operation, key: &LockKey) -> impl Fn(Error) -> Error {
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

#[async_trait]
impl LockBackend for LeaseRows {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn clock(&self) -> Clock {
        self.store.clock().clone()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let attempt = async {
            let ttl = self.ttl(request.ttl)?;
            acquire::try_lock(&self.store, request, ttl, self.waiting.position_of(request)).await
        };
        attempt.await.map_err(self.during(Operation::TryLock, &request.claim.key))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let result = self.renew_all(std::slice::from_ref(lease), ttl).await.pop();
        result
            .unwrap_or_else(|| Err(release::unclear()))
            .map_err(self.during(Operation::Renew, &lease.claim.key))
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let released = release::unlock(&self.store, claim).await;
        let released = released.map_err(self.during(Operation::Unlock, &claim.key))?;
        if released == Release::Released {
            self.waiting.changed();
            self.pruner.after_release();
        }
        Ok(released)
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
        Some(self.store.calls.sent())
    }

    async fn close(&self) -> Result<()> {
        self.waiting.close();
        self.store.calls.close().await;
        Ok(())
    }
}

impl Drop for LeaseRows {
    fn drop(&mut self) {
        // The task that listens would otherwise go on for a while.
        self.waiting.close();
    }
}
