//! The backend: what it promises, and each operation's way into the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Effect, Error, ErrorKind, ExpiryClock, Guarantees, Health, Lease,
    LockAdmin, LockBackend, LockKey, LockRequest, Operation, Release, Renewal, Result, StoreUrl, Supports,
    TryLock,
};
use zookeeper_client::Client;

use crate::config::{ZkConfig, check_servers};
use crate::store::Store;
use crate::{acquire, hand_over, probe, release, renew, waiting};

/// Locks in ZooKeeper.
///
/// The crate's documentation says what it promises and what it does not.
#[derive(Debug)]
pub struct ZkBackend {
    pub(crate) info: BackendInfo,
    pub(crate) store: Arc<Store>,
    /// Where the servers are, if the session is not the application's.
    config: Option<ZkConfig>,
}

impl ZkBackend {
    /// Name in errors and reports.
    pub const NAME: &'static str = "zk";

    /// Opens a session, and makes the node under which all locks are, if need be.
    ///
    /// # Errors
    /// - `InvalidOptions`: an option is out of range, or two contradict each other.
    /// - `FeatureDisabled`: encryption is asked for, and the feature `tls` is off.
    /// - `Unavailable`: no server can be reached, or they have no leader.
    /// - `PermissionDenied`: the servers refuse the credentials, or the right to use that node.
    /// - `Misconfigured`: the files for encryption, or the addresses, won't do.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect(config: ZkConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            let store = Store::new(&config, None)?;
            store.generation().await?;
            Ok(Self { info: Self::describe(), store, config: Some(config) })
        };
        opened.await.map_err(connecting)
    }

    /// Connects to the store that a URL names, and takes this backend's options out of it.
    ///
    /// # Errors
    /// `InvalidUrl` as with [`ZkConfig::from_url`], and as [`ZkBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`ZkBackend::connect`].
    pub async fn from_url(url: &mut StoreUrl) -> Result<Self> {
        Self::connect(ZkConfig::from_url(url)?).await
    }

    /// Uses the application's own session, under its chroot if it has one. Of `config`, `path`,
    /// `access` and `response_timeout` count.
    ///
    /// How long that session lives is not known before two writes that are a third of its time-out
    /// apart, so this takes as long. When the session is over, so is the backend: every call says so.
    ///
    /// # Errors
    /// As [`ZkBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`ZkBackend::connect`].
    pub async fn from_client(client: Client, config: ZkConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            let store = Store::new(&config, Some(client))?;
            store.generation().await?;
            Ok(Self { info: Self::describe(), store, config: None })
        };
        opened.await.map_err(connecting)
    }

    /// Uses other servers of the same ensemble from now on, as `host:port` each. The connection is
    /// opened anew; the session goes on, and with it every lock and every place in a queue. Servers of
    /// another ensemble don't know the session, which ends it.
    ///
    /// # Errors
    /// `InvalidOptions` if an address is none; `Unsupported` if the session is the application's.
    pub fn use_servers(&self, servers: impl IntoIterator<Item = impl Into<String>>) -> Result<()> {
        let servers: Vec<String> = servers.into_iter().map(Into::into).collect();
        check_servers(&servers).map_err(connecting)?;
        if self.store.opener.use_servers(servers) {
            return Ok(());
        }
        let message = "the session is the application's, and so is the choice of its servers";
        Err(connecting(Error::new(ErrorKind::Unsupported, message).with_effect(Effect::None)))
    }

    /// What ZooKeeper promises and can do.
    #[must_use]
    pub fn describe() -> BackendInfo {
        let mut guarantees = Guarantees::consensus();
        guarantees.expiry = ExpiryClock::Session;
        guarantees.ttl_grain = Duration::from_millis(1);
        guarantees.ttl_min = Duration::from_millis(300);
        let supports =
            Supports::NONE.push().loss_push().queue().batch_renew().hand_over().admin().processes();
        BackendInfo::new(Self::NAME, guarantees, supports)
    }

    fn ttl(&self, wish: Duration) -> Result<Duration> {
        self.info.guarantees.effective_ttl(wish)
    }

    /// Names the operation and the key in an error.
    pub(crate) fn during(&self, operation: Operation, key: &LockKey) -> impl Fn(Error) -> Error {
        let name = self.info.name;
        move |error| error.on_backend(name).in_operation(operation).for_key(key)
    }

    /// Names the operation in an error.
    pub(crate) fn generally(&self, operation: Operation) -> impl Fn(Error) -> Error {
        let name = self.info.name;
        move |error| error.on_backend(name).in_operation(operation)
    }

    async fn renew_all(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        match self.ttl(ttl) {
            Ok(ttl) => renew::renew_many(&self.store, leases, ttl).await,
            Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

fn connecting(error: Error) -> Error {
    error.on_backend(ZkBackend::NAME).in_operation(Operation::Connect)
}

#[async_trait]
impl LockBackend for ZkBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn clock(&self) -> Clock {
        self.store.clock.clone()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let attempt = async {
            let ttl = self.ttl(request.ttl)?;
            acquire::try_lock(&self.store, request, ttl).await
        };
        attempt.await.map_err(self.during(Operation::TryLock, &request.claim.key))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let result = self.renew_all(std::slice::from_ref(lease), ttl).await.pop();
        let none = || Err(Error::new(ErrorKind::Other, "a renewal has no result"));
        result.unwrap_or_else(none).map_err(self.during(Operation::Renew, &lease.claim.key))
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let release = release::unlock(&self.store, claim).await;
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
        let waited = waiting::watch_release(&self.store, claim, busy).await;
        waited.map_err(self.during(Operation::Watch, &claim.key))
    }

    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        let watched = renew::watch_loss(&self.store, lease).await;
        watched.map_err(self.during(Operation::Watch, &lease.claim.key))
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        let passed = async {
            let ttl = self.ttl(next.ttl)?;
            hand_over::hand_over(&self.store, lease, next, ttl).await
        };
        passed.await.map_err(self.during(Operation::HandOver, &next.claim.key))
    }

    async fn probe(&self) -> Result<Health> {
        let health = probe::probe(&self.store, self.config.as_ref()).await;
        health.map_err(self.generally(Operation::Probe))
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        Some(self.store.sent())
    }

    async fn close(&self) -> Result<()> {
        self.store.close();
        Ok(())
    }
}

impl Drop for ZkBackend {
    fn drop(&mut self) {
        // The session would otherwise go on for ever.
        self.store.close();
    }
}
