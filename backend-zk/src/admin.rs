//! Looking at locks and taking them away.

use async_trait::async_trait;
use distlock_core::{FencingToken, Holder, LockAdmin, LockKey, LockRecord, Operation, Result};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::ZkBackend;
use crate::floor;
use crate::generation::Generation;
use crate::holder;
use crate::session::{Failure, Outcome};

/// How many locks are looked at at the same time.
const PARALLEL: usize = 32;

#[async_trait]
impl LockAdmin for ZkBackend {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        let inspecting = async {
            let generation = self.store.generation().await?;
            generation.session.sync(generation.names.root()).await?;
            Ok(inspect(&generation, key).await?)
        };
        inspecting.await.map_err(self.during(Operation::Inspect, key))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let listing = async {
            let generation = self.store.generation().await?;
            generation.session.sync(generation.names.root()).await?;
            Ok(list(&generation, prefix, after, limit).await?)
        };
        listing.await.map_err(self.generally(Operation::List))
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        let forcing = async {
            let generation = self.store.generation().await?;
            Ok(force_unlock(&generation, key).await?)
        };
        forcing.await.map_err(self.during(Operation::ForceUnlock, key))
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        let raising = async {
            let generation = self.store.generation().await?;
            floor::raise(&generation, floor).await
        };
        raising.await.map_err(self.generally(Operation::RaiseTokenFloor))
    }
}

/// The first of the queue holds the lock; the others wait.
async fn inspect(generation: &Generation, key: &LockKey) -> Outcome<Option<LockRecord>> {
    let lock = generation.names.lock(key);
    loop {
        let look = match generation.look(&lock).await {
            Err(Failure::NoNode) => return Ok(None),
            look => look?,
        };
        let Some(first) = look.queue.first() else { return Ok(None) };
        let node = match generation.session.read(&format!("{lock}/{}", first.name)).await {
            // It left in between.
            Err(Failure::NoNode) => continue,
            node => node?,
        };
        let waiters = u64::try_from(look.queue.len() - 1).unwrap_or(u64::MAX);
        let record = LockRecord::new(key.clone()).waiters(waiters);
        return Ok(Some(match holder::of(first, &node, &look.floor) {
            Some(holder) => record.holder(holder),
            None => record,
        }));
    }
}

/// Held and awaited locks in the order of their keys.
async fn list(
    generation: &Generation,
    prefix: &[u8],
    after: Option<&LockKey>,
    limit: usize,
) -> Outcome<Vec<LockRecord>> {
    let root = generation.names.root();
    let (names, _) = generation.session.children(root, root).await?;
    let mut keys: Vec<_> = names
        .iter()
        .filter_map(|name| generation.names.key(name))
        .filter(|key| key.as_bytes().starts_with(prefix) && after.is_none_or(|after| key > after))
        .collect();
    keys.sort();
    let mut records = Vec::new();
    let mut found =
        stream::iter(keys).map(|key| async move { inspect(generation, &key).await }).buffered(PARALLEL);
    while records.len() < limit
        && let Some(record) = found.try_next().await?
    {
        records.extend(record);
    }
    Ok(records)
}

/// Removes the holder's node, whoever made it.
async fn force_unlock(generation: &Generation, key: &LockKey) -> Outcome<Option<Holder>> {
    let lock = generation.names.lock(key);
    loop {
        let look = match generation.look_now(&lock).await {
            Err(Failure::NoNode) => return Ok(None),
            look => look?,
        };
        let Some(first) = look.queue.first() else { return Ok(None) };
        let path = format!("{lock}/{}", first.name);
        let node = match generation.session.read(&path).await {
            Err(Failure::NoNode) => continue,
            node => node?,
        };
        match generation.session.delete(&path, None).await {
            Err(Failure::NoNode) => {}
            deleted => return deleted.map(|()| holder::of(first, &node, &look.floor)),
        }
    }
}
