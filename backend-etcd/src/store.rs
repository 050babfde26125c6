//! The store: names, the way to the cluster, and what this client knows of it.

use std::sync::Arc;

use distlock_core::{Clock, Contended, LockKey, Result};
use etcd_client::Txn;

use crate::config::EtcdConfig;
use crate::error::Failure;
use crate::floor::Floor;
use crate::keepalives::Keepalives;
use crate::link::{Link, Repeat};
use crate::names::Names;
use crate::queue::Answer;
use crate::shared::Shared;
use crate::silence::Silences;
use crate::spares::Spares;
use crate::standing::Standings;
use crate::together::Together;

/// The store: names, the way to the cluster, and what this client knows of it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) link: Arc<Link>,
    pub(crate) together: Together,
    pub(crate) names: Names,
    pub(crate) clock: Clock,
    pub(crate) keepalives: Keepalives,
    pub(crate) floor: Floor,
    pub(crate) contended: Contended,
    pub(crate) standings: Standings,
    pub(crate) silences: Silences,
    /// Leases for the next claims, if they have one each.
    pub(crate) spares: Spares,
    /// One lease for all claims, if they don't have one each.
    pub(crate) shared: Option<Shared>,
}

impl Store {
    pub(crate) fn new(link: Arc<Link>, config: &EtcdConfig) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            together: Together::new(Arc::clone(&link)),
            link,
            names: Names::new(&config.namespace)?,
            clock: Clock::system(),
            keepalives: Keepalives::default(),
            floor: Floor::default(),
            contended: Contended::default(),
            standings: Standings::default(),
            silences: Silences::default(),
            spares: Spares::default(),
            shared: config.shared_lease.map(Shared::new),
        }))
    }

    /// Runs a transaction.
    pub(crate) async fn txn(&self, repeat: Repeat, txn: &Txn) -> Result<Answer, Failure> {
        self.link.txn(repeat, txn).await
    }

    /// Runs a transaction about the records of one lock, never twice; with those about other locks, if they are many. It
    /// must concern nothing else that such a one writes.
    pub(crate) async fn txn_of(&self, key: &LockKey, txn: Txn) -> Result<Answer, Failure> {
        self.together.txn(key, txn).await
    }
}
