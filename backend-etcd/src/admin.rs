//! Looking at locks and taking them away.

use async_trait::async_trait;
use distlock_core::{FencingToken, Holder, LockAdmin, LockKey, LockRecord, Operation, Result};
use etcd_client::{GetOptions, Txn, TxnOp};

use crate::EtcdBackend;
use crate::acquire::holder;
use crate::error::unreadable;
use crate::floor;
use crate::leases::remaining;
use crate::link::Repeat;
use crate::names::after;
use crate::queue::{self, Entry};
use crate::record::Kind;
use crate::store::Store;

/// How many records a step of a listing reads: no more than fits into a message of 4 MiB by far.
const STEP: i64 = 1000;

#[async_trait]
impl LockAdmin for EtcdBackend {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        inspect(&self.store, key).await.map_err(self.during(Operation::Inspect, key))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let records = list(&self.store, prefix, after, limit).await;
        records.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::List))
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        force_unlock(&self.store, key).await.map_err(self.during(Operation::ForceUnlock, key))
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        let raised = floor::raise(&self.store, floor).await;
        raised.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::RaiseTokenFloor))
    }
}

/// The first record of a queue and how many there are.
async fn front(store: &Store, key: &LockKey) -> Result<Option<(Entry, u64)>> {
    let count = queue::in_queue(store, key, GetOptions::new().with_count_only());
    let look = Txn::new().and_then([queue::first(store, key), count]);
    let mut answer = store.txn(Repeat::Freely, &look).await?;
    let (Some(count), Some(first)) = (answer.counts.get(1).copied(), answer.ranges.first_mut()) else {
        return unreadable();
    };
    Ok(first.pop().map(|first| (first, u64::try_from(count).unwrap_or(0))))
}

async fn inspect(store: &Store, key: &LockKey) -> Result<Option<LockRecord>> {
    let Some((first, count)) = front(store, key).await? else { return Ok(None) };
    let record = LockRecord::new(key.clone()).waiters(count.saturating_sub(1));
    let Some(mut holder) = alive(store, key, &first)? else { return Ok(Some(record)) };
    if first.record()?.kind == Kind::Lease {
        match remaining(store, first.lease).await? {
            Some(left) => holder = holder.expires_in(left),
            // It ended between the two answers.
            None => return Ok(Some(record)),
        }
    }
    Ok(Some(record.holder(holder)))
}

/// Who has the first record, unless its ttl is known to be over.
fn alive(store: &Store, key: &LockKey, first: &Entry) -> Result<Option<Holder>> {
    let record = first.record()?;
    let holder = holder(store, first)?;
    if record.kind == Kind::Lease {
        return Ok(Some(holder));
    }
    let left = record.ttl.saturating_sub(store.silences.of(key, first, store.clock.now()));
    Ok((!left.is_zero()).then(|| holder.expires_in(left)))
}

/// Held and awaited locks in the order of their keys, which is that of their records' names. One whose first
/// record is damaged is listed without a holder; [`inspect`] says what is wrong with it.
async fn list(store: &Store, prefix: &[u8], from: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
    let all = store.names.starting_with(prefix);
    let start = from.map_or_else(|| all.clone(), |key| after(&store.names.queue(key))).max(all.clone());
    let mut page = Vec::new();
    let mut lock: Option<(LockKey, Entry, u64)> = None;
    let mut walk = Walk { next: start, end: after(&all) };
    while page.len() < limit {
        let step = walk.step(store).await?;
        let is_over = step.is_empty();
        for entry in step {
            let Some((key, _)) = store.names.read(&entry.name) else { continue };
            match &mut lock {
                Some((current, first, count)) if *current == key => {
                    *count += 1;
                    if entry.created < first.created {
                        *first = entry;
                    }
                }
                _ => page.extend(lock.replace((key, entry, 1)).and_then(|lock| shown(store, lock))),
            }
        }
        if is_over {
            page.extend(lock.take().and_then(|lock| shown(store, lock)));
            break;
        }
    }
    page.truncate(limit);
    Ok(page)
}

fn shown(store: &Store, (key, first, count): (LockKey, Entry, u64)) -> Option<LockRecord> {
    let record = LockRecord::new(key.clone()).waiters(count - 1);
    match alive(store, &key, &first) {
        Ok(Some(holder)) => Some(record.holder(holder)),
        // Over, and nobody waits: it is as good as free.
        Ok(None) if count == 1 => None,
        Ok(None) | Err(_) => Some(record),
    }
}

/// A walk through records in the order of their names.
struct Walk {
    next: Vec<u8>,
    end: Vec<u8>,
}

impl Walk {
    async fn step(&mut self, store: &Store) -> Result<Vec<Entry>> {
        if self.next >= self.end {
            return Ok(Vec::new());
        }
        let options = GetOptions::new().with_range(self.end.clone()).with_limit(STEP);
        let range = TxnOp::get(self.next.clone(), Some(options));
        let answer = store.txn(Repeat::Freely, &Txn::new().and_then([range])).await?;
        let step = answer.ranges.into_iter().next().unwrap_or_default();
        if let Some(last) = step.last() {
            self.next.clone_from(&last.name);
            self.next.push(0);
        }
        Ok(step)
    }
}

/// Takes the lock from its holder, and says from whom it was taken. The next in the queue has it then.
async fn force_unlock(store: &Store, key: &LockKey) -> Result<Option<Holder>> {
    loop {
        let Some((first, _)) = front(store, key).await? else { return Ok(None) };
        // Of a record that can't be read nobody can say who held it.
        let victim = alive(store, key, &first).ok().flatten();
        // Not with its lease: its holder may give back the lock, and use the lease for another one.
        if queue::delete_unless_other(store, key, &first).await? {
            return Ok(victim);
        }
    }
}
