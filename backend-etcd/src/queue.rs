//! The queue of one lock: its records in the order of their creation, of which the first is the holder's.

use distlock_core::{Claim, LockKey, OwnerId, Result};
use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnResponse,
};

use crate::error::{Failure, unreadable};
use crate::floor::Seen;
use crate::link::Repeat;
use crate::names::after;
use crate::record::{Record, damaged};
use crate::store::Store;

/// A record as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) lease: i64,
}

/// What one look at a queue shows, all of one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The store's revision at that moment.
    pub(crate) revision: i64,
    /// The term of the leader that said so.
    pub(crate) term: u64,
    /// The record of the claim that looks.
    pub(crate) own: Option<Entry>,
    /// The first of all.
    pub(crate) first: Option<Entry>,
    /// The name of the last one, or of the last one in front of the claim's own.
    pub(crate) last: Option<Vec<u8>>,
    /// The token floor, if that was looked at.
    pub(crate) floor: Seen,
}

/// How an attempt to add a record went.
#[derive(Debug)]
pub(crate) enum Added {
    /// The record is there now.
    Yes(View),
    /// It was there already, or, in a try that wants the lock at once, others are. Of a longer queue the view then
    /// does not show the last.
    No(View),
    /// The token floor had been raised, or all that was on its way ruled out, which is known now: try once more.
    Outdated,
}

/// How an attempt to put one record in the place of another went.
#[derive(Debug)]
pub(crate) enum Replaced {
    Yes(View),
    /// The old record is not there any more.
    Gone(View),
    /// Others wait.
    Others(View),
    /// The token floor had been raised, and is known again: try once more.
    FloorRaised,
}

impl Entry {
    /// What it says.
    pub(crate) fn record(&self) -> Result<Record> {
        Record::decode(&self.value).ok_or_else(damaged)
    }

    /// Whose it is.
    pub(crate) fn owner(&self, store: &Store) -> Result<OwnerId> {
        let (_, owner) = store.names.read(&self.name).ok_or_else(damaged)?;
        owner.ok_or_else(damaged)
    }
}

impl View {
    /// Whether the claim that looks has the first record.
    pub(crate) fn is_first(&self) -> bool {
        match (&self.own, &self.first) {
            (Some(own), Some(first)) => own.created == first.created && own.name == first.name,
            _ => false,
        }
    }

    /// Whether only the first record stands before the claim that looks.
    pub(crate) fn is_second(&self) -> bool {
        self.first.as_ref().is_some_and(|first| self.last.as_ref() == Some(&first.name))
    }
}

/// Adds the claim's record at the end of the queue.
pub(crate) async fn join(
    store: &Store,
    claim: &Claim,
    record: &Record,
    lease: i64,
) -> Result<Added, Failure> {
    let own = store.names.record(claim);
    let is_absent = Compare::create_revision(own.clone(), CompareOp::Equal, 0);
    // Before the write, so that of a free lock there is nothing to read.
    let then = [first(store, &claim.key), last(store, &claim.key), put(&own, record, lease)];
    let txn = Txn::new().when(still_wanted(store, is_absent, lease)).and_then(then);
    add(store, claim, txn.or_else([get(own.clone())]), own, lease).await
}

/// Adds the claim's record if the queue is empty.
pub(crate) async fn take(
    store: &Store,
    claim: &Claim,
    record: &Record,
    lease: i64,
) -> Result<Added, Failure> {
    let own = store.names.record(claim);
    let otherwise = [get(own.clone()), first(store, &claim.key)];
    add(store, claim, if_empty(store, claim, &own, record, lease).or_else(otherwise), own, lease).await
}

/// The same, without finding out what stands against it: a lock that is free costs no more than its write. `None` if
/// the record was not added.
pub(crate) async fn take_blindly(
    store: &Store,
    claim: &Claim,
    record: &Record,
    lease: i64,
) -> Result<Option<View>, Failure> {
    let own = store.names.record(claim);
    let answer = store.txn_of(&claim.key, if_empty(store, claim, &own, record, lease)).await?;
    Ok(answer.succeeded.then(|| alone(own, answer.revision, answer.term)))
}

/// What is there after a transaction of this revision has added the first record.
fn alone(own: Vec<u8>, revision: i64, term: u64) -> View {
    // The revision of a transaction that writes is that of all it creates.
    let own = Entry { name: own, value: Vec::new(), created: revision, modified: revision, lease: 0 };
    View { revision, term, own: Some(own.clone()), first: Some(own), ..View::default() }
}

fn if_empty(store: &Store, claim: &Claim, own: &[u8], record: &Record, lease: i64) -> Txn {
    let queue = store.names.queue(&claim.key);
    let end = after(&queue);
    let is_empty = Compare::create_revision(queue, CompareOp::Equal, 0).with_range(end);
    Txn::new().when(still_wanted(store, is_empty, lease)).and_then([put(own, record, lease)])
}

/// The conditions of a new record: this one, and that nothing was written since that rules it out.
fn still_wanted(store: &Store, condition: Compare, lease: i64) -> Vec<Compare> {
    let mut conditions = vec![condition, store.floor.seen().is_unchanged(store)];
    conditions.extend(store.shared.as_ref().map(|shared| shared.is_unchanged(store, lease)));
    conditions
}

/// Every part of such a transaction travels to the server and into its log, also those that are not carried
/// out; so what hardly ever matters is asked for by a request of its own.
async fn add(store: &Store, claim: &Claim, txn: Txn, own: Vec<u8>, lease: i64) -> Result<Added, Failure> {
    let answer = store.txn_of(&claim.key, txn).await?;
    let (revision, term, counts) = (answer.revision, answer.term, answer.counts);
    let mut ranges = answer.ranges.into_iter().map(|mut found| found.pop());
    let mut next = || ranges.next().flatten();
    if answer.succeeded {
        let (first, last) = (next(), next().map(|entry| entry.name));
        let view = alone(own, revision, term);
        return Ok(Added::Yes(View { first: first.or(view.first), last, ..view }));
    }
    let (own, first) = (next(), next());
    if own.is_none() && first.is_none() {
        store.floor.read(store).await.map_err(refused)?;
        if let Some(shared) = &store.shared {
            shared.read_epoch(store, lease).await?;
        }
        return Ok(Added::Outdated);
    }
    let is_alone = counts.get(1) == Some(&1);
    let last = first.as_ref().filter(|_| is_alone).map(|first| first.name.clone());
    Ok(Added::No(View { revision, term, own, first, last, ..View::default() }))
}

/// Looks at the queue. `created` is the revision that created the claim's own record, as far as known.
pub(crate) async fn look(store: &Store, claim: &Claim, created: Option<i64>) -> Result<View, Failure> {
    let own = store.names.record(claim);
    let before = match created {
        Some(created) => before(store, &claim.key, created),
        None => last(store, &claim.key),
    };
    let reads = [get(own), first(store, &claim.key), before, get(store.names.floor())];
    let answer = store.txn(Repeat::Freely, &Txn::new().and_then(reads)).await?;
    let mut ranges = answer.ranges;
    let [own, first, last, floor] = &mut ranges[..] else { return unreadable().map_err(refused) };
    let floor = store.floor.note(floor.pop()).map_err(refused)?;
    let view = View {
        revision: answer.revision,
        term: answer.term,
        own: own.pop(),
        first: first.pop(),
        last: last.pop().map(|entry| entry.name),
        floor,
    };
    match &view.own {
        Some(entry) if created.is_none() && !view.is_first() => {
            let created = entry.created;
            Box::pin(look(store, claim, Some(created))).await
        }
        _ => Ok(view),
    }
}

/// Writes the claim's record anew, unless it is not the one created at `created` any more, and looks who is first. With
/// `floor` also only if the token floor is still that one.
pub(crate) async fn rewrite(
    store: &Store,
    claim: &Claim,
    created: i64,
    record: &Record,
    lease: i64,
    floor: Option<Seen>,
) -> Result<View, Failure> {
    let own = store.names.record(claim);
    let is_same = Compare::create_revision(own.clone(), CompareOp::Equal, created);
    let conditions = [Some(is_same), floor.map(|floor| floor.is_unchanged(store))];
    let txn = Txn::new()
        .when(conditions.into_iter().flatten().collect::<Vec<_>>())
        .and_then([put(&own, record, lease), get(own), first(store, &claim.key)])
        .or_else([first(store, &claim.key)]);
    let answer = store.txn(Repeat::Never, &txn).await?;
    let mut ranges = answer.ranges;
    let first = ranges.pop().unwrap_or_default().pop();
    let own = ranges.pop().unwrap_or_default().pop();
    Ok(View { revision: answer.revision, term: answer.term, own, first, ..View::default() })
}

/// Deletes the record of one claim, created at `created`, and adds that of another one for the same lock, if no other
/// record stands in the queue.
pub(crate) async fn replace(
    store: &Store,
    old: &Claim,
    created: i64,
    claim: &Claim,
    record: &Record,
    lease: i64,
) -> Result<Replaced, Failure> {
    let (queue, floor) = (store.names.queue(&claim.key), store.floor.seen());
    let (old, own) = (store.names.record(old), store.names.record(claim));
    let none_within =
        |from: Vec<u8>, to: Vec<u8>| Compare::create_revision(from, CompareOp::Equal, 0).with_range(to);
    let behind = [old.as_slice(), &[0]].concat();
    let conditions = [
        Compare::create_revision(old.clone(), CompareOp::Equal, created),
        none_within(queue.clone(), old.clone()),
        none_within(behind, after(&queue)),
        floor.is_unchanged(store),
    ];
    let then = [TxnOp::delete(old.clone(), None::<DeleteOptions>), put(&own, record, lease)];
    let otherwise = [get(own.clone()), get(old), first(store, &claim.key)];
    let txn = Txn::new().when(conditions).and_then(then).or_else(otherwise);
    let answer = store.txn(Repeat::Never, &txn).await?;
    if answer.succeeded {
        return Ok(Replaced::Yes(alone(own, answer.revision, answer.term)));
    }
    let is_alone = answer.counts.get(2) == Some(&1);
    let mut ranges = answer.ranges.into_iter().map(|mut found| found.pop());
    let mut next = || ranges.next().flatten();
    let (own, old, first) = (next(), next(), next());
    let is_held = old.is_some_and(|old| old.created == created);
    if is_held && is_alone {
        store.floor.read(store).await.map_err(refused)?;
        return Ok(Replaced::FloorRaised);
    }
    let view = View { revision: answer.revision, term: answer.term, own, first, ..View::default() };
    Ok(if is_held { Replaced::Others(view) } else { Replaced::Gone(view) })
}

/// Deletes a record if nobody has written it since `entry` was seen; says whether it did.
pub(crate) async fn delete_unless_written(
    store: &Store,
    key: &LockKey,
    entry: &Entry,
) -> Result<bool, Failure> {
    let is_same = Compare::mod_revision(entry.name.clone(), CompareOp::Equal, entry.modified);
    delete(store, key, &entry.name, is_same).await
}

/// Deletes a record if it is the one that `entry` was; says whether it did.
pub(crate) async fn delete_unless_other(
    store: &Store,
    key: &LockKey,
    entry: &Entry,
) -> Result<bool, Failure> {
    let is_same = Compare::create_revision(entry.name.clone(), CompareOp::Equal, entry.created);
    delete(store, key, &entry.name, is_same).await
}

async fn delete(store: &Store, key: &LockKey, name: &[u8], condition: Compare) -> Result<bool, Failure> {
    let txn = Txn::new().when([condition]).and_then([TxnOp::delete(name, None::<DeleteOptions>)]);
    Ok(store.txn_of(key, txn).await?.succeeded)
}

pub(crate) fn get(name: Vec<u8>) -> TxnOp {
    TxnOp::get(name, None)
}

pub(crate) fn put(name: &[u8], record: &Record, lease: i64) -> TxnOp {
    TxnOp::put(name, record.encode(), Some(PutOptions::new().with_lease(lease)))
}

/// The first record of the queue.
pub(crate) fn first(store: &Store, key: &LockKey) -> TxnOp {
    let options = GetOptions::new().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
    in_queue(store, key, options)
}

fn last(store: &Store, key: &LockKey) -> TxnOp {
    let options = GetOptions::new().with_sort(SortTarget::Create, SortOrder::Descend).with_limit(1);
    in_queue(store, key, options.with_keys_only())
}

/// The last record that was created before this revision.
fn before(store: &Store, key: &LockKey, created: i64) -> TxnOp {
    let options = GetOptions::new().with_sort(SortTarget::Create, SortOrder::Descend).with_limit(1);
    in_queue(store, key, options.with_keys_only().with_max_create_revision(created - 1))
}

pub(crate) fn in_queue(store: &Store, key: &LockKey, options: GetOptions) -> TxnOp {
    let queue = store.names.queue(key);
    let end = after(&queue);
    TxnOp::get(queue, Some(options.with_range(end)))
}

fn refused(error: distlock_core::Error) -> Failure {
    Failure { error, verdict: crate::error::Verdict::Refused }
}

/// A transaction's answer: what its reads found, one list for each.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) revision: i64,
    /// The leader's term.
    pub(crate) term: u64,
    pub(crate) succeeded: bool,
    pub(crate) ranges: Vec<Vec<Entry>>,
    /// How many records each read counted, whether or not it returned them.
    pub(crate) counts: Vec<i64>,
    /// Those of nested transactions.
    pub(crate) nested: Vec<Self>,
}

impl From<TxnResponse> for Answer {
    fn from(response: TxnResponse) -> Self {
        let (revision, term) =
            response.0.header.as_ref().map_or((0, 0), |header| (header.revision, header.raft_term));
        Self::of(response.0, revision, term)
    }
}

impl Answer {
    /// Only the outermost of nested transactions tells the revision and the term.
    fn of(response: PbTxnResponse, revision: i64, term: u64) -> Self {
        let PbTxnResponse { succeeded, responses, .. } = response;
        let mut answer =
            Self { revision, term, succeeded, ranges: Vec::new(), counts: Vec::new(), nested: Vec::new() };
        for response in responses.into_iter().filter_map(|response| response.response) {
            match response {
                PbTxnOpResponse::ResponseRange(range) => {
                    answer.counts.push(range.count);
                    answer.ranges.push(range.kvs.into_iter().map(Entry::from).collect());
                }
                PbTxnOpResponse::ResponseTxn(txn) => answer.nested.push(Self::of(txn, revision, term)),
                PbTxnOpResponse::ResponsePut(_) | PbTxnOpResponse::ResponseDeleteRange(_) => {}
            }
        }
        answer
    }
}

impl From<etcd_client::proto::PbKeyValue> for Entry {
    fn from(kv: etcd_client::proto::PbKeyValue) -> Self {
        Self {
            name: kv.key,
            value: kv.value,
            created: kv.create_revision,
            modified: kv.mod_revision,
            lease: kv.lease,
        }
    }
}
