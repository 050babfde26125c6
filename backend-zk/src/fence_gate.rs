//! A gate for data in ZooKeeper.

use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::{
    Effect, Error, ErrorKind, FenceGate, FencingToken, IntoKey, LockKey, Operation, Result, stale_token,
};

use crate::ZkBackend;
use crate::config::ZkConfig;
use crate::session::{Failure, Node, Write};
use crate::store::Store;

/// A write of any version of a node.
const ANY: i32 = -1;
/// How often a write begins anew because another one came first.
const ROUNDS: usize = 16;

/// Refuses writes of stale holders to nodes of ZooKeeper.
///
/// The newest token of each lock is kept in a node of its own, and [`write`](ZkFenceGate::write) writes
/// the data and that in one transaction. [`admit`](FenceGate::admit) alone leaves a gap between check and write.
/// The lock may live in another store. The gate never forgets, and keeps one small node for each key for good.
#[derive(Debug)]
pub struct ZkFenceGate {
    store: Arc<Store>,
}

impl ZkFenceGate {
    /// Opens a session for the gate. Its tokens are kept under the configuration's path.
    ///
    /// # Errors
    /// As [`ZkBackend::connect`].
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect(config: ZkConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            let store = Store::new(&config, None)?;
            store.generation().await?;
            Ok(Self { store })
        };
        opened
            .await
            .map_err(|error: Error| error.on_backend(ZkBackend::NAME).in_operation(Operation::Connect))
    }

    /// Writes the data of the node at `path`, which is there and absolute, unless a higher token of
    /// `key` was seen: one transaction.
    ///
    /// # Errors
    /// - `Lost`: a higher token was seen, and nothing was written.
    /// - `Misconfigured`: there is no such node.
    /// - The store's errors, of which those with an unknown effect may have written.
    ///
    /// # Cancel safety
    /// May be dropped at any point: the data may or may not be written.
    pub async fn write(&self, key: impl IntoKey, token: FencingToken, path: &str, data: &[u8]) -> Result<()> {
        let key = key.into_key()?;
        self.pass(&key, token, Some((path, data))).await.map_err(|error| named(error, &key))
    }

    async fn pass(&self, key: &LockKey, token: FencingToken, data: Option<(&str, &[u8])>) -> Result<()> {
        let generation = self.store.generation().await?;
        let (session, fence) = (&generation.session, self.store.names.fence(key));
        for _ in 0..ROUNDS {
            let node = match session.read(&fence).await {
                Err(Failure::NoNode) => {
                    session.create_folder(&fence).await?;
                    continue;
                }
                node => node?,
            };
            let highest = highest(&node)?;
            if let Some(highest) = highest.filter(|highest| *highest > token) {
                return Err(stale_token(key, token, highest));
            }
            let text = token.to_string();
            let mark = Write { path: &fence, data: text.as_bytes(), version: node.version };
            let written = match data {
                None if highest == Some(token) => return Ok(()),
                None => session.write_all(&[mark]).await,
                Some((path, data)) => session.write_all(&[mark, Write { path, data, version: ANY }]).await,
            };
            match written {
                Ok(_) => return Ok(()),
                Err((Some(0), Failure::OtherVersion | Failure::NoNode)) => {}
                Err((Some(1), Failure::NoNode)) => {
                    let message = "there is no node at the path of the data; make it first";
                    return Err(Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None));
                }
                Err((_, failure)) => return Err(failure.into()),
            }
        }
        let message = "other writers came first over and over; try again";
        Err(Error::new(ErrorKind::Overloaded, message).with_effect(Effect::None))
    }
}

/// The highest token that was seen, if one was.
fn highest(node: &Node) -> Result<Option<FencingToken>> {
    if node.data.is_empty() {
        return Ok(None);
    }
    let token = std::str::from_utf8(&node.data).ok().and_then(|text| text.parse().ok());
    token.map(Some).ok_or_else(|| {
        let message = "the gate's node holds no token; see who else writes it";
        Error::new(ErrorKind::Corrupt, message).with_effect(Effect::None)
    })
}

fn named(error: Error, key: &LockKey) -> Error {
    error.on_backend(ZkBackend::NAME).in_operation(Operation::Fence).for_key(key)
}

#[async_trait]
impl FenceGate for ZkFenceGate {
    async fn admit(&self, key: &LockKey, token: FencingToken) -> Result<()> {
        self.pass(key, token, None).await.map_err(|error| named(error, key))
    }
}

impl Drop for ZkFenceGate {
    fn drop(&mut self) {
        self.store.close();
    }
}
