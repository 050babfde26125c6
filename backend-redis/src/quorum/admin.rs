//! Looking at locks and taking them away, by the majority.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    Effect, FencingToken, Holder, LockAdmin, LockKey, LockRecord, Operation, OwnerId, Result,
};

use super::ballot::majority;
use super::calls::Calls;
use super::node::Node;
use super::{Quorum, RedlockBackend};

/// Longest time to wait for a server that others can stand in for.
const LIMIT: Duration = Duration::from_secs(1);
/// Longest time until a server's clock has passed a floor.
const FLOOR_LIMIT: Duration = Duration::from_secs(5);
/// Longest time for a server's part of a list.
const LIST_LIMIT: Duration = Duration::from_secs(20);

#[async_trait]
impl LockAdmin for RedlockBackend {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        let quorum = &self.quorum;
        let asked = key.clone();
        let records = quorum.ask(LIMIT, move |node| inspect(node, asked.clone())).await;
        let records = records.map_err(self.during(Operation::Inspect, key))?;
        let answered = records.len();
        Ok(joined(key, records.into_iter().flatten().collect(), answered))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let listed = list(&self.quorum, prefix, after, limit).await;
        listed.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::List))
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        force_unlock(&self.quorum, key).await.map_err(self.during(Operation::ForceUnlock, key))
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        // A later grant's token is the highest of a majority, one of which knows of the floor.
        let raised = self.quorum.ask(FLOOR_LIMIT, |node| raise_floor(node, floor)).await.map(drop);
        raised.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::RaiseTokenFloor))
    }
}

async fn list(
    quorum: &Arc<Quorum>,
    prefix: &[u8],
    after: Option<&LockKey>,
    limit: usize,
) -> Result<Vec<LockRecord>> {
    let mut page = Vec::new();
    let mut after = after.cloned();
    // What single servers have left over of failed attempts is not listed, so a page may take several.
    while page.len() < limit {
        let wanted = limit - page.len();
        let (prefix, from) = (prefix.to_vec(), after.clone());
        let asked = move |node| list_of(node, prefix.clone(), from.clone(), wanted);
        let lists = quorum.ask(LIST_LIMIT, asked).await?;
        let answered = lists.len();
        // Behind the end of a full page a server may have more.
        let full = lists.iter().filter(|list| list.len() >= wanted);
        let known_to = full.filter_map(|list| list.last().map(|record| record.key.clone())).min();
        let mut by_key = BTreeMap::<LockKey, Vec<LockRecord>>::new();
        for record in lists.into_iter().flatten() {
            if known_to.as_ref().is_none_or(|end| record.key <= *end) {
                by_key.entry(record.key.clone()).or_default().push(record);
            }
        }
        for (key, records) in by_key {
            let is_damaged = records.iter().any(|record| record.holders.is_empty());
            let record = joined(&key, records, answered);
            page.extend(record.filter(|record| is_damaged || !record.holders.is_empty()));
        }
        page.truncate(limit);
        match known_to {
            Some(end) => after = Some(end),
            None => break,
        }
    }
    Ok(page)
}

/// Takes the lock away wherever it is, and keeps the holder's renewals from putting it back.
async fn force_unlock(quorum: &Arc<Quorum>, key: &LockKey) -> Result<Option<Holder>> {
    let holders = quorum.ask(LIMIT, |node| force(node, key.clone())).await?;
    let answered = holders.len();
    let record = |holder| LockRecord::new(key.clone()).holder(holder);
    let records: Vec<_> = holders.into_iter().flatten().map(record).collect();
    let Some(last) = records.iter().filter_map(|record| record.last_token).max() else { return Ok(None) };
    quorum.ask(LIMIT, |node| raise(node, key.clone(), last.get())).await?;
    Ok(joined(key, records, answered).and_then(|record| record.holders.into_iter().next()))
}

async fn inspect(node: Arc<Node>, key: LockKey) -> Result<Option<LockRecord>> {
    node.backend.inspect(&key).await
}

async fn list_of(
    node: Arc<Node>,
    prefix: Vec<u8>,
    after: Option<LockKey>,
    limit: usize,
) -> Result<Vec<LockRecord>> {
    node.backend.list(&prefix, after.as_ref(), limit).await
}

async fn force(node: Arc<Node>, key: LockKey) -> Result<Option<Holder>> {
    node.backend.force_unlock(&key).await
}

async fn raise(node: Arc<Node>, key: LockKey, token: u64) -> Result<()> {
    node.raise(&key, token).await
}

async fn raise_floor(node: Arc<Node>, floor: FencingToken) -> Result<()> {
    node.backend.raise_token_floor(floor).await
}

impl Quorum {
    /// Asks all servers; fails unless a majority answers. Who was too slow the last time is not waited for.
    async fn ask<T, F>(&self, limit: Duration, ask: impl Fn(Arc<Node>) -> F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut calls = Calls::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let asked = ask(Arc::clone(node));
            calls.push(async move { (at, asked.await) });
        }
        let mut waits_for: BTreeSet<_> = (0..self.nodes.len()).collect();
        for slow in self.slow_nodes() {
            waits_for.remove(&slow);
        }
        let (mut given, mut failures) = (Vec::new(), Vec::new());
        let mut deadline = self.timers.shared_limit(limit);
        while !waits_for.is_empty() {
            match calls.next_before(&mut deadline).await {
                Some((at, answer)) => {
                    waits_for.remove(&at);
                    match answer {
                        Ok(answer) => {
                            self.nodes[at].answered();
                            given.push(answer);
                        }
                        Err(error) => failures.push((at, error)),
                    }
                }
                None => {
                    for at in std::mem::take(&mut waits_for) {
                        self.nodes[at].was_slow();
                    }
                }
            }
        }
        calls.finish(|_, _| ());
        if given.len() >= majority(self.nodes.len()) {
            return Ok(given);
        }
        Err(self.unavailable(&failures).with_effect(Effect::Unknown))
    }
}

/// One record of the records of a lock that so many servers gave or did not have; none if there are none.
fn joined(key: &LockKey, records: Vec<LockRecord>, answered: usize) -> Option<LockRecord> {
    let last = records.iter().filter_map(|record| record.last_token).max();
    let any = !records.is_empty();
    let mut by_owner = BTreeMap::<OwnerId, Vec<Holder>>::new();
    for holder in records.into_iter().flat_map(|record| record.holders) {
        by_owner.entry(holder.owner).or_default().push(holder);
    }
    let held = by_owner.into_values().find(|held| held.len() >= majority(answered));
    let record = LockRecord::new(key.clone());
    match (held, last) {
        (Some(held), _) => Some(record.holder(holder(held, majority(answered)))),
        (None, Some(last)) => Some(record.last_token(last)),
        (None, None) => any.then_some(record),
    }
}

/// One holder of what several servers say of him.
fn holder(mut held: Vec<Holder>, needed: usize) -> Holder {
    // He has the lock for as long as a majority says so.
    held.sort_by_key(|holder| std::cmp::Reverse(holder.expires_in));
    let left = held[needed - 1].expires_in;
    let tokens: BTreeSet<_> = held.iter().map(|holder| holder.token).collect();
    let count = |token: &FencingToken| held.iter().filter(|holder| holder.token == *token).count();
    let agreed = tokens.iter().copied().max_by_key(|token| (count(token), *token));
    // What was put back after a server forgot it says nothing about the holder.
    let told = held.iter().map(|holder| &holder.metadata).find(|told| !told.is_empty()).cloned();
    let mut holder = held.swap_remove(0);
    holder.expires_in = left;
    holder.token = agreed.unwrap_or(holder.token);
    holder.metadata = told.unwrap_or(holder.metadata);
    holder
}
