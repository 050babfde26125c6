//! The backend: what it promises, and each operation's way into the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Error, ExpiryClock, Guarantees, Health, Lease, LockAdmin, LockBackend,
    LockKey, LockRequest, Operation, Release, Renewal, Result, StoreUrl, Supports, TryLock,
};
use etcd_client::Client;

use crate::config::EtcdConfig;
use crate::error::with_hint;
use crate::link::Link;
use crate::store::Store;
use crate::waiting::Waiting;
use crate::{acquire, hand_over, leases, probe, release, renew};

pub(crate) const NAME: &str = "etcd";

/// Locks in etcd.
///
/// The crate's documentation says what it promises and what it does not.
#[derive(Debug)]
pub struct EtcdBackend {
    pub(crate) info: BackendInfo,
    pub(crate) store: Arc<Store>,
    waiting: Arc<Waiting>,
}

impl EtcdBackend {
    /// Connects, and asks the cluster for a sign of life.
    ///
    /// # Errors
    /// - `InvalidOptions`: an option is out of range, or two contradict each other.
    /// - `FeatureDisabled`: encryption is asked for, and the feature `tls` is off.
    /// - `Unavailable`: no member can be reached, or none of them knows a leader.
    /// - `PermissionDenied`: the credentials are refused, or the right to read the namespace.
    /// - `Misconfigured`: the files for encryption, or the server's certificate, won't do; or a user is
    ///   given, and the server has authentication switched off.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect(config: EtcdConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            Self::start(&config, Link::new(&config)?).await
        };
        opened.await.map_err(connecting)
    }

    /// Connects to the store that a URL names, and takes this backend's options out of it.
    ///
    /// # Errors
    /// `InvalidUrl` as with [`EtcdConfig::from_url`], and as [`EtcdBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`EtcdBackend::connect`].
    pub async fn from_url(url: &mut StoreUrl) -> Result<Self> {
        Self::connect(EtcdConfig::from_url(url)?).await
    }

    /// Sends requests through the application's own client. Of `config`, the namespace, the response
    /// time-out and the shared lease count.
    ///
    /// Which member is used, and what happens when one fails, is up to that client: one made with
    /// several endpoints does not leave a member that is frozen. Let it refresh its token
    /// (`with_auto_token_refresh`) if it has a user.
    ///
    /// # Errors
    /// As [`EtcdBackend::connect`].
    ///
    /// # Cancel safety
    /// As [`EtcdBackend::connect`].
    pub async fn from_client(client: Client, config: EtcdConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            Self::start(&config, Link::own(&config, client)).await
        };
        opened.await.map_err(connecting)
    }

    /// What the store promises and can do.
    #[must_use]
    pub fn describe() -> BackendInfo {
        let mut guarantees = Guarantees::consensus();
        guarantees.expiry = ExpiryClock::Leader;
        guarantees.ttl_grain = Duration::from_millis(1);
        guarantees.ttl_min = Duration::from_millis(100);
        let supports =
            Supports::NONE.push().loss_push().queue().batch_renew().hand_over().admin().adopt().processes();
        BackendInfo::new(NAME, guarantees, supports)
    }

    async fn start(config: &EtcdConfig, link: Arc<Link>) -> Result<Self> {
        let store = Store::new(link, config)?;
        probe::sign_of_life(&store).await.map_err(|error| with_hint(error, config))?;
        let waiting = Waiting::new(Arc::clone(&store));
        Ok(Self { info: Self::describe(), store, waiting })
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

pub(crate) fn connecting(error: Error) -> Error {
    error.on_backend(NAME).in_operation(Operation::Connect)
}

#[async_trait]
impl LockBackend for EtcdBackend {
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
        let result = renew::only(self.renew_all(std::slice::from_ref(lease), ttl).await);
        result.map_err(self.during(Operation::Renew, &lease.claim.key))
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

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        let passing = async {
            let ttl = self.ttl(next.ttl)?;
            hand_over::hand_over(&self.store, lease, next, ttl).await
        };
        passing.await.map_err(self.during(Operation::HandOver, &next.claim.key))
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        let watched = self.waiting.watch_release(claim, busy).await;
        watched.map_err(self.during(Operation::Watch, &claim.key))
    }

    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        let watched = self.waiting.watch_loss(lease).await;
        watched.map_err(self.during(Operation::Watch, &lease.claim.key))
    }

    async fn probe(&self) -> Result<Health> {
        let health = probe::probe(&self.store).await;
        health.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::Probe))
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        Some(self.store.link.sent())
    }

    async fn close(&self) -> Result<()> {
        self.waiting.close();
        leases::end_spares(&self.store).await;
        self.store.keepalives.close();
        self.store.link.close();
        Ok(())
    }
}

impl Drop for EtcdBackend {
    fn drop(&mut self) {
        // The task that watches would otherwise go on for a while.
        self.waiting.close();
    }
}
