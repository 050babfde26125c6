//! The state of a memory store: pure bookkeeping under a given time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::Claim;
use crate::clock::Instant;
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::metadata::Metadata;
use crate::outcome::{Busy, Cursor, Holder, LostReason, Release};
use crate::owner::OwnerId;
use crate::request::LockRequest;

/// How long a queued claim keeps its place without being refreshed, at least; else for its ttl.
const PLACE: Duration = Duration::from_secs(5);

/// Every lock of the store, by key. A key that nobody holds or waits for has no record.
#[derive(Debug)]
pub(super) struct Store {
    records: BTreeMap<LockKey, Record>,
    /// The highest token granted for any key.
    last_token: u64,
    places: u64,
    changes: u64,
}

#[derive(Debug, Default)]
struct Record {
    holder: Option<Hold>,
    queue: BTreeMap<u64, Waiter>,
    place_of: BTreeMap<OwnerId, u64>,
    /// Wakes those who wait outside the queue.
    bystanders: Option<Arc<Notify>>,
    changed: u64,
}

#[derive(Debug)]
struct Hold {
    owner: OwnerId,
    token: FencingToken,
    deadline: Instant,
    metadata: Metadata,
}

#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    keeps_place_until: Instant,
    wake: Arc<Notify>,
}

impl Store {
    pub(super) const fn new(first_token: u64) -> Self {
        Self { records: BTreeMap::new(), last_token: first_token, places: 0, changes: 0 }
    }

    pub(super) fn try_lock(
        &mut self,
        request: &LockRequest,
        ttl: Duration,
        now: Instant,
    ) -> Result<FencingToken, Busy> {
        let claim = &request.claim;
        let record = match self.records.get_mut(&claim.key) {
            Some(record) => record,
            None => self.records.entry(claim.key.clone()).or_default(),
        };
        record.expire(now);
        if let Some(hold) = record.holder.as_mut().filter(|hold| hold.owner == claim.owner) {
            hold.deadline = hold.deadline.max(now.plus(ttl));
            return Ok(hold.token);
        }
        if record.holder.is_none() && record.first_waiter().is_none_or(|first| first == claim.owner) {
            return Ok(self.grant(request, ttl, now));
        }
        if request.queue {
            self.places += 1;
            record.queue(claim.owner, self.places, now.plus(PLACE.max(request.ttl)));
        }
        let mut busy = record.busy(now);
        busy.waiter_ahead = request.queue && record.first_waiter() != Some(claim.owner);
        Err(busy)
    }

    /// Releases `from` and grants to `next`, past the queue.
    pub(super) fn hand_over(
        &mut self,
        from: &Claim,
        next: &LockRequest,
        ttl: Duration,
        now: Instant,
    ) -> Result<FencingToken, Busy> {
        let Some(record) = self.records.get_mut(&from.key) else { return Err(Busy::unknown()) };
        record.expire(now);
        record.leave(from.owner);
        if record.holder.as_ref().is_none_or(|hold| hold.owner != from.owner) {
            return Err(record.busy(now));
        }
        Ok(self.grant(next, ttl, now))
    }

    pub(super) fn renew(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        ttl: Duration,
        now: Instant,
    ) -> Result<(), LostReason> {
        let Some(record) = self.records.get_mut(key) else { return Err(LostReason::Expired) };
        record.expire(now);
        match &mut record.holder {
            Some(hold) if hold.owner == owner => {
                hold.deadline = hold.deadline.max(now.plus(ttl));
                Ok(())
            }
            Some(_) => Err(LostReason::Stolen),
            None => Err(LostReason::Expired),
        }
    }

    pub(super) fn unlock(&mut self, key: &LockKey, owner: OwnerId, now: Instant) -> Release {
        let Some(record) = self.records.get_mut(key) else { return Release::NotHeld(LostReason::Expired) };
        record.expire(now);
        let release = match &record.holder {
            Some(hold) if hold.owner == owner => Release::Released,
            Some(_) => Release::NotHeld(LostReason::Stolen),
            None => Release::NotHeld(LostReason::Expired),
        };
        if release == Release::Released {
            record.holder = None;
        }
        let left = record.leave(owner);
        if release == Release::Released || left {
            self.changes += 1;
            record.wake(self.changes);
        }
        self.tidy(key);
        release
    }

    /// What to wait for after `busy`, or `None` if there is a reason to try at once.
    pub(super) fn watch(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        busy: &Busy,
        now: Instant,
    ) -> Option<Arc<Notify>> {
        let record = self.records.get_mut(key)?;
        record.expire(now);
        if let Some(place) = record.place_of.get(&owner) {
            let first = record.first_waiter() == Some(owner);
            if first && record.holder.is_none() {
                return None;
            }
            return record.queue.get(place).map(|waiter| Arc::clone(&waiter.wake));
        }
        if record.holder.is_none() || record.changed > busy.cursor.0 {
            return None;
        }
        Some(Arc::clone(record.bystanders.get_or_insert_default()))
    }

    pub(super) fn force_unlock(&mut self, key: &LockKey, now: Instant) -> Option<Holder> {
        let record = self.records.get_mut(key)?;
        record.expire(now);
        let holder = record.holder.take().map(|hold| hold.describe(now));
        self.changes += 1;
        record.wake(self.changes);
        self.tidy(key);
        holder
    }

    pub(super) fn inspect(&mut self, key: &LockKey, now: Instant) -> Option<(Option<Holder>, u64)> {
        self.tidy_expired(key, now);
        let record = self.records.get(key)?;
        let holder = record.holder.as_ref().map(|hold| hold.describe(now));
        Some((holder, record.queue.len() as u64))
    }

    /// Keys that start with `prefix` and come after `after`, in order.
    pub(super) fn keys_with(&self, prefix: &[u8], after: Option<&LockKey>) -> Vec<LockKey> {
        let keys = self.records.keys().filter(|key| key.as_bytes().starts_with(prefix));
        keys.filter(|key| after.is_none_or(|after| *key > after)).cloned().collect()
    }

    pub(super) fn raise_floor(&mut self, floor: FencingToken) {
        self.last_token = self.last_token.max(floor.get());
    }

    /// Number of keys with a record.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    fn grant(&mut self, request: &LockRequest, ttl: Duration, now: Instant) -> FencingToken {
        self.last_token += 1;
        let token = FencingToken::new(self.last_token).unwrap_or(FencingToken::MAX);
        let claim = &request.claim;
        if let Some(record) = self.records.get_mut(&claim.key) {
            record.leave(claim.owner);
            let metadata = request.metadata.clone();
            record.holder = Some(Hold { owner: claim.owner, token, deadline: now.plus(ttl), metadata });
        }
        token
    }

    fn tidy_expired(&mut self, key: &LockKey, now: Instant) {
        if let Some(record) = self.records.get_mut(key) {
            record.expire(now);
        }
        self.tidy(key);
    }

    /// Drops the record of a key that nobody holds or waits for.
    pub(super) fn tidy(&mut self, key: &LockKey) {
        if self.records.get(key).is_some_and(|record| record.holder.is_none() && record.queue.is_empty()) {
            self.records.remove(key);
        }
    }
}

impl Record {
    fn expire(&mut self, now: Instant) {
        if self.holder.as_ref().is_some_and(|hold| now >= hold.deadline) {
            self.holder = None;
        }
        // Only the head can block others, so only a dead head must go.
        while let Some(first) = self.queue.first_entry().filter(|first| now >= first.get().keeps_place_until)
        {
            self.place_of.remove(&first.remove().owner);
        }
    }

    fn first_waiter(&self) -> Option<OwnerId> {
        self.queue.first_key_value().map(|(_, waiter)| waiter.owner)
    }

    fn queue(&mut self, owner: OwnerId, next_place: u64, until: Instant) {
        let place = *self.place_of.entry(owner).or_insert(next_place);
        let waiter = self.queue.entry(place).or_insert_with(|| Waiter {
            owner,
            keeps_place_until: until,
            wake: Arc::new(Notify::new()),
        });
        waiter.keeps_place_until = waiter.keeps_place_until.max(until);
    }

    fn leave(&mut self, owner: OwnerId) -> bool {
        if self.place_of.is_empty() {
            return false;
        }
        let place = self.place_of.remove(&owner);
        place.is_some_and(|place| self.queue.remove(&place).is_some())
    }

    /// Wakes the head of the queue, or if nobody queues one of those who wait outside it.
    fn wake(&mut self, change: u64) {
        self.changed = change;
        match self.queue.first_key_value() {
            Some((_, first)) => first.wake.notify_one(),
            None => self.bystanders.iter().for_each(|notify| notify.notify_waiters()),
        }
    }

    fn busy(&self, now: Instant) -> Busy {
        let busy = match &self.holder {
            Some(hold) => Busy::by(hold.describe(now), hold.deadline.since(now)),
            None => Busy::unknown(),
        };
        busy.cursor(Cursor(self.changed))
    }
}

impl Hold {
    fn describe(&self, now: Instant) -> Holder {
        Holder::new(self.owner, self.token)
            .expires_in(self.deadline.since(now))
            .metadata(self.metadata.clone())
    }
}
