//! etcd's own lock service.

use etcd_client::{Client, LockOptions};

use crate::peer::{Failure, Peer, TTL};

pub struct LockService {
    client: Client,
    /// One for each contender: without it two of them would be one to the service.
    leases: Vec<i64>,
}

impl Peer for LockService {
    const NAME: &'static str = "etcd lock service";
    const SCHEME: &'static str = "etcd";
    const DIFFERS: &'static str = "its waiters watch from a past revision, which the server serves only every 100 ms; one lease for all locks of a contender";
    const FASTER_ALONE: &'static str = "a contender's one lease was made before and is not prolonged in the run; here each lock has a lease of its own, a record that names the holder, and a release that is sure of what it deletes";

    async fn open(url: &str, contenders: usize) -> Result<Self, Failure> {
        let hosts = url.trim_start_matches("etcd://").split(',').map(|host| format!("http://{host}"));
        let mut client = Client::connect(hosts.collect::<Vec<_>>(), None).await?;
        let mut leases = Vec::with_capacity(contenders);
        for _ in 0..contenders {
            leases.push(client.lease_grant(TTL.as_secs().cast_signed(), None).await?.id());
        }
        Ok(Self { client, leases })
    }

    async fn pair(&self, key: &str, contender: usize) -> Result<(), Failure> {
        let mut client = self.client.clone();
        let options = LockOptions::new().with_lease(self.leases[contender]);
        let held = client.lock(key, Some(options)).await?;
        client.unlock(held.key()).await?;
        Ok(())
    }
}
