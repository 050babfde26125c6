//! Looking at locks and taking them away.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    Effect, Error, ErrorKind, FencingToken, Holder, LockAdmin, LockKey, LockRecord, Operation, Result,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use redis::Value;

use crate::RedisBackend;
use crate::connection::Node;
use crate::error::{damaged, is_split, unreadable};
use crate::reply::{holder, parts, token_of};
use crate::script;
use crate::store::Store;

/// How many names a step of a scan looks at: the server serves others in between.
const STEP: usize = 1000;
/// How many slots are asked at the same time.
const PARALLEL: usize = 32;
/// A token floor this far ahead of the server's clock is waited for.
const FLOOR_AHEAD: Duration = Duration::from_secs(2);

#[async_trait]
impl LockAdmin for RedisBackend {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        let record = inspect(&self.store, key).await.map_err(self.during(Operation::Inspect, key))?;
        Ok(record.map(|record| self.counted(record)))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let records = list(&self.store, prefix, after, limit).await;
        let records =
            records.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::List))?;
        Ok(records.into_iter().map(|record| self.counted(record)).collect())
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        force_unlock(&self.store, key).await.map_err(self.during(Operation::ForceUnlock, key))
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        let raised = raise_token_floor(&self.store, floor).await;
        raised.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::RaiseTokenFloor))
    }
}

impl RedisBackend {
    /// Without a queue nobody knows how many wait.
    fn counted(&self, mut record: LockRecord) -> LockRecord {
        if self.info.supports.queue {
            record.waiters.get_or_insert(0);
        }
        record
    }
}

async fn inspect(store: &Store, key: &LockKey) -> Result<Option<LockRecord>> {
    let answer = store.run(&script::INSPECT, &[store.names.record(key)], &[]).await?;
    let record = LockRecord::new(key.clone());
    match Found::read(parts(&answer.value)?.first())? {
        Found::Nothing => Ok(None),
        Found::Free(token, waiters) | Found::Shared(token, waiters) => {
            Ok(Some(with(record.last_token(token), waiters)))
        }
        Found::Held(holder, waiters) => Ok(Some(with(record.holder(holder), waiters))),
        Found::Damaged => Err(damaged()),
    }
}

fn with(record: LockRecord, waiters: u64) -> LockRecord {
    if waiters > 0 { record.waiters(waiters) } else { record }
}

/// Held and awaited locks in the order of their keys. A damaged record is listed without holders; [`inspect`] says
/// what is wrong with it.
///
/// The server knows no order, so each page walks through all names; what is kept of them is a page.
async fn list(
    store: &Store,
    prefix: &[u8],
    after: Option<&LockKey>,
    limit: usize,
) -> Result<Vec<LockRecord>> {
    let mut page = BTreeMap::new();
    if limit == 0 {
        return Ok(Vec::new());
    }
    let pattern = store.names.pattern(prefix);
    for node in store.nodes().await? {
        let mut cursor = b"0".to_vec();
        loop {
            let (next, mut keys) = scan(store, &node, &cursor, &pattern).await?;
            keys.retain(|key| {
                after.is_none_or(|after| key > after) && !(page.len() == limit && is_behind(&page, key))
            });
            for (key, record) in look_at(store, keys).await? {
                page.insert(key, record);
            }
            while page.len() > limit {
                page.pop_last();
            }
            if next == b"0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(page.into_values().collect())
}

fn is_behind(page: &BTreeMap<LockKey, LockRecord>, key: &LockKey) -> bool {
    page.last_key_value().is_some_and(|(last, _)| key > last)
}

/// One step of a scan: where the next one begins, and the keys it found.
async fn scan(store: &Store, node: &Node, cursor: &[u8], pattern: &[u8]) -> Result<(Vec<u8>, Vec<LockKey>)> {
    let mut command = redis::cmd("SCAN");
    command.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(STEP);
    let answer = store.command_to(node, &command).await?;
    let [Value::BulkString(next), Value::Array(names)] = parts(&answer)? else { return unreadable() };
    let key = |name: &Value| match name {
        Value::BulkString(name) => store.names.key(name),
        _ => None,
    };
    let mut keys: Vec<_> = names.iter().filter_map(key).collect();
    // A scan may tell a name twice.
    keys.sort();
    keys.dedup();
    Ok((next.clone(), keys))
}

/// The records of those keys that are held, awaited or damaged.
async fn look_at(store: &Store, keys: Vec<LockKey>) -> Result<Vec<(LockKey, LockRecord)>> {
    let mut slots = BTreeMap::<u16, Vec<LockKey>>::new();
    for key in keys {
        slots.entry(store.link.slot(&store.names.record(&key))).or_default().push(key);
    }
    let answers = stream::iter(slots.into_values()).map(|keys| async move {
        match look_at_slot(store, &keys).await {
            // Records moved between the scan and the look.
            Err(error) if keys.len() > 1 && is_split(&error) => {
                let mut records = Vec::new();
                for key in &keys {
                    records.extend(look_at_slot(store, std::slice::from_ref(key)).await?);
                }
                Ok(records)
            }
            records => records,
        }
    });
    let records: Vec<Vec<_>> = answers.buffer_unordered(PARALLEL).try_collect().await?;
    Ok(records.into_iter().flatten().collect())
}

async fn look_at_slot(store: &Store, keys: &[LockKey]) -> Result<Vec<(LockKey, LockRecord)>> {
    let names: Vec<_> = keys.iter().map(|key| store.names.record(key)).collect();
    let answer = store.run(&script::INSPECT, &names, &[]).await?;
    let mut records = Vec::new();
    let found = parts(&answer.value)?;
    for (nth, key) in keys.iter().enumerate() {
        let (key, record) = (key.clone(), LockRecord::new(key.clone()));
        match Found::read(found.get(nth))? {
            Found::Nothing | Found::Free(_, 0) => {}
            Found::Held(holder, waiters) => records.push((key, with(record.holder(holder), waiters))),
            Found::Free(token, waiters) | Found::Shared(token, waiters) => {
                records.push((key, with(record.last_token(token), waiters)));
            }
            Found::Damaged => records.push((key, record)),
        }
    }
    Ok(records)
}

/// Takes the lock from its holder, wakes who waits, and says from whom it was taken.
async fn force_unlock(store: &Store, key: &LockKey) -> Result<Option<Holder>> {
    let (channel, shard_channel) = (store.names.channel(), store.names.shard_channel(key));
    let arguments = [channel, key.as_bytes(), &shard_channel];
    let answer = store.run(&script::FORCE_UNLOCK, &[store.names.record(key)], &arguments).await?;
    match Found::read(Some(&answer.value))? {
        Found::Held(holder, _) => Ok(Some(holder)),
        // Of a record that was replaced nobody can say who held it.
        _ => Ok(None),
    }
}

/// Tokens are never below the server's clock, which keeps the floor by going on: a floor that it has
/// passed needs nothing to be stored, and one just ahead is waited for.
async fn raise_token_floor(store: &Store, floor: FencingToken) -> Result<()> {
    for node in store.nodes().await? {
        loop {
            let now = store.server_time(&node).await?;
            let ahead = Duration::from_micros((floor.get() + 1).saturating_sub(now));
            if ahead.is_zero() {
                break;
            }
            if ahead > FLOOR_AHEAD {
                return Err(Error::new(
                    ErrorKind::InvalidOptions,
                    format!(
                        "a token floor of {floor} is {ahead:.0?} ahead of the server's clock, which tokens follow; set the clock right, then try again"
                    ),
                )
                .with_effect(Effect::None));
            }
            tokio::time::sleep(ahead).await;
        }
    }
    Ok(())
}

/// What a script found under a name, and how many queue for it.
#[derive(Debug)]
enum Found {
    Nothing,
    Free(FencingToken, u64),
    Held(Holder, u64),
    /// Held in a mode that this version does not know.
    Shared(FencingToken, u64),
    Damaged,
}

impl Found {
    fn read(answer: Option<&Value>) -> Result<Self> {
        let Some(answer) = answer else { return unreadable() };
        match parts(answer)? {
            [Value::Int(0)] | [Value::Int(2)] | [Value::Int(3)] => Ok(Self::Nothing),
            [Value::Int(0), token, waiters] => Ok(Self::Free(token_of(token)?, count(waiters))),
            [Value::Int(1), token, owner, left, metadata, waiters @ ..] => {
                Ok(Self::Held(holder(token, owner, left, metadata)?, waiters.first().map_or(0, count)))
            }
            [Value::Int(2), token, waiters] => Ok(Self::Shared(token_of(token)?, count(waiters))),
            [Value::Int(-1)] => Ok(Self::Damaged),
            _ => unreadable(),
        }
    }
}

fn count(value: &Value) -> u64 {
    match value {
        Value::Int(count) => u64::try_from(*count).unwrap_or(0),
        _ => 0,
    }
}
