//! The floor of the ZooKeeper store: a place is made, the queue is listed, the place is deleted.

use std::time::Duration;

use distlock::zk::zookeeper_client::{Acls, Client, CreateMode, Error as ZkError};
use distlock::{Error, ErrorKind, OwnerId, Result, StoreUrl};

use super::Floor;

const DEFAULT_PORT: u16 = 2181;

/// A session that all keys share, as the backend's do, on the backend's client.
#[derive(Debug)]
pub(crate) struct ZkFloor {
    client: Client,
    folder: String,
    /// What this lane holds.
    place: String,
}

impl Floor for ZkFloor {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let servers: Vec<_> = url.hosts.iter().map(|host| host.with_default_port(DEFAULT_PORT)).collect();
        if url.scheme != "zk" || url.user.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, "the floor is known of `zk://host` alone"));
        }
        let connector = Client::connector().with_session_timeout(Duration::from_secs(10));
        let client = connector.connect(&servers.join(",")).await.map_err(|error| failed("connect", error))?;
        let folder = format!("/bench-floor/{:016x}", fastrand::u64(..));
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.mkdir(&folder, &open).await.map_err(|error| failed("make a folder", error))?;
        Ok(Self { client, folder, place: String::new() })
    }

    fn another(&self) -> Option<Self> {
        Some(Self { client: self.client.clone(), folder: self.folder.clone(), place: String::new() })
    }

    async fn acquire(&mut self, lane: usize) -> Result<()> {
        let lock = format!("{}/{lane}", self.folder);
        let prefix = format!("{lock}/_c_{}-lock-", OwnerId::random());
        let place = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let number = loop {
            match self.client.create(&prefix, b"distlock/1 5000 ", &place).await {
                Ok((_, number)) => break number,
                Err(ZkError::NoNode) => {
                    let node = CreateMode::Container.with_acls(Acls::anyone_all());
                    match self.client.create(&lock, b"", &node).await {
                        Ok(_) | Err(ZkError::NodeExists) => {}
                        Err(error) => return Err(failed("make the bare lock", error)),
                    }
                }
                Err(error) => return Err(failed("take the bare lock", error)),
            }
        };
        self.place = format!("{prefix}{number}");
        let queue =
            self.client.list_children(&lock).await.map_err(|error| failed("list the queue", error))?;
        match queue.as_slice() {
            [_] => Ok(()),
            _ => Err(Error::new(ErrorKind::Other, "the bare lock was not free")),
        }
    }

    async fn release(&mut self, _: usize) -> Result<()> {
        self.client.delete(&self.place, None).await.map_err(|error| failed("release the bare lock", error))
    }
}

fn failed(what: &str, error: ZkError) -> Error {
    Error::new(ErrorKind::Unavailable, format!("can't {what} for the floor")).caused_by(error)
}
