//! etcd's own lock service, as what a lock in etcd is to be compared with.

use distlock::{Result, StoreUrl};
use etcd_client::LockOptions;

use super::Floor;
use super::etcd::{Connection, LEASE, connected, failed};

/// One contender at the lock service: a lease of its own, without which two of them would be one to the service.
#[derive(Debug)]
pub(crate) struct EtcdLockService {
    client: Connection,
    name: String,
    lease: Option<i64>,
    /// What the service calls its hold.
    held: Vec<u8>,
}

impl EtcdLockService {
    async fn lease(&mut self) -> Result<i64> {
        if let Some(lease) = self.lease {
            return Ok(lease);
        }
        let granted = self.client.0.lease_grant(LEASE, None).await;
        let lease = granted.map_err(|error| failed("get a lease", error))?.id();
        self.lease = Some(lease);
        Ok(lease)
    }
}

impl Floor for EtcdLockService {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let client = connected(url).await?;
        let name = format!("bench-service/{:016x}", fastrand::u64(..));
        Ok(Self { client, name, lease: None, held: Vec::new() })
    }

    /// One more contender for the same lock.
    fn another(&self) -> Option<Self> {
        Some(Self { client: self.client.clone(), name: self.name.clone(), lease: None, held: Vec::new() })
    }

    async fn acquire(&mut self, _: usize) -> Result<()> {
        let options = LockOptions::new().with_lease(self.lease().await?);
        let held = self.client.0.lock(self.name.clone(), Some(options)).await;
        held.map_err(|error| failed("lock by the store's service", error))?.key().clone_into(&mut self.held);
        Ok(())
    }

    async fn release(&mut self, _: usize) -> Result<()> {
        let released = self.client.0.unlock(std::mem::take(&mut self.held)).await;
        released.map(drop).map_err(|error| failed("unlock by the store's service", error))
    }
}
