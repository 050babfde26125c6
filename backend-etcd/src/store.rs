//! The store: names, the way to the cluster, and what this client knows of it.

use std::sync::Arc;

use distlock_core::{Clock, Contended, Result};
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

/// The store: names, the way to the cluster, and what this client knows of it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) link: Link,
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
    pub(crate) fn new(link: Link, config: &EtcdConfig) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
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
        let run = |client: &etcd_client::Client| {
            let (mut kv, txn) = (client.kv_client(), txn.clone());
            // In a box, since it is large: without, it would be copied on its way through those around it.
            Box::pin(async move { kv.txn(txn).await })
        };
        self.link.call(repeat, run).await.map(Answer::from)
    }
}
