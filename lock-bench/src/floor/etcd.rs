//! The floor of the etcd store: two transactions on one connection.

use distlock::{Error, ErrorKind, Metadata, OwnerId, Result, StoreUrl};
use etcd_client::{Client, Compare, CompareOp, ConnectOptions, PutOptions, Txn, TxnOp};

use super::Floor;

/// Longer than a run. It keeps all records of the run, so that none needs a lease of its own.
pub(super) const LEASE: i64 = 3600;
const DEFAULT_PORT: u16 = 2379;

/// A connection that all keys share, as the backend's do, and names of its own.
#[derive(Debug, Clone)]
pub(crate) struct EtcdFloor {
    client: Connection,
    prefix: String,
    lease: i64,
    value: String,
    /// What this lane has written.
    record: String,
}

/// The client crate's connection says nothing of itself.
#[derive(Clone)]
pub(super) struct Connection(pub(super) Client);

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl Floor for EtcdFloor {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let mut client = connected(url).await?;
        let granted = client.0.lease_grant(LEASE, None).await;
        let lease = granted.map_err(|error| failed("get a lease", error))?.id();
        Ok(Self {
            client,
            prefix: format!("bench-floor/{:016x}", fastrand::u64(..)),
            lease,
            value: format!("1 exclusive lease 30000000 0 {}", Metadata::of_this_process().encode()),
            record: String::new(),
        })
    }

    fn another(&self) -> Option<Self> {
        Some(self.clone())
    }

    async fn acquire(&mut self, lane: usize) -> Result<()> {
        self.record = format!("{}/{lane}\0/{}", self.prefix, OwnerId::random());
        let put = TxnOp::put(
            self.record.clone(),
            self.value.clone(),
            Some(PutOptions::new().with_lease(self.lease)),
        );
        let (queue, end) = (format!("{}/{lane}\0/", self.prefix), format!("{}/{lane}\0\u{30}", self.prefix));
        let is_free = Compare::create_revision(queue, CompareOp::Equal, 0).with_range(end);
        let put = self.client.0.txn(Txn::new().when([is_free]).and_then([put])).await;
        match put.map_err(|error| failed("take the bare lock", error))?.succeeded() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Other, "the bare lock was not free")),
        }
    }

    async fn release(&mut self, _: usize) -> Result<()> {
        let is_there = Compare::version(self.record.clone(), CompareOp::Greater, 0);
        let delete = TxnOp::delete(self.record.clone(), None);
        let deleted = self.client.0.txn(Txn::new().when([is_there]).and_then([delete])).await;
        match deleted.map_err(|error| failed("release the bare lock", error))?.succeeded() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Other, "the bare lock was not held")),
        }
    }
}

/// A connection set up like the backend's.
pub(super) async fn connected(url: &StoreUrl) -> Result<Connection> {
    let Some(host) = url.hosts.first().filter(|_| url.scheme == "etcd") else {
        return Err(Error::new(ErrorKind::Unsupported, "the floor is known of `etcd://host` alone"));
    };
    let mut options = ConnectOptions::new().with_require_leader(true);
    if let Some(user) = &url.user {
        options = options.with_user(user, url.password.clone().unwrap_or_default());
    }
    let address = host.with_default_port(DEFAULT_PORT);
    let client = Client::connect([address], Some(options)).await;
    client.map(Connection).map_err(|error| failed("connect", error))
}

pub(super) fn failed(what: &str, error: etcd_client::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("can't {what} for the floor")).caused_by(error)
}
