//! When which lock is due for renewal, warning or loss: pure bookkeeping, without I/O or timers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backoff::jittered;
use crate::clock::Instant;
use crate::error::ErrorKind;
use crate::held::Held;

/// Timers are checked against the real clock at least this often, since they stop in suspend.
const CHECK_MOST: Duration = Duration::from_millis(250);
const CHECK_LEAST: Duration = Duration::from_millis(1);
/// Renewals due within this part of the interval go out together.
const GATHER: u32 = 10;

/// All locks under watch, in the order in which something is due.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    entries: BTreeMap<u64, Entry>,
    due: BTreeMap<(Instant, u64), ()>,
    last_slot: u64,
    check_every: Option<Duration>,
}

#[derive(Debug)]
struct Entry {
    held: Arc<Held>,
    due: Instant,
    renew_at: Instant,
    /// While a renewal is under way: when to stop believing that it will ever answer.
    in_flight_until: Option<Instant>,
    failures: u32,
    warned: bool,
}

/// What a tick asks for.
#[derive(Debug, Default)]
pub(crate) struct Tick {
    /// Locks to renew now.
    pub(crate) renew: Vec<Arc<Held>>,
    /// When to tick again, if anything is under watch.
    pub(crate) next: Option<Instant>,
}

impl Schedule {
    /// Puts a lock under watch; returns when something is first due.
    pub(crate) fn insert(&mut self, held: &Arc<Held>, now: Instant) -> Instant {
        self.last_slot += 1;
        let slot = self.last_slot;
        held.slot.store(slot, Ordering::Release);
        let check = (held.lease().ttl / 10).clamp(CHECK_LEAST, CHECK_MOST);
        self.check_every = Some(self.check_every.map_or(check, |every| every.min(check)));
        let renew_at = held.timing().renew_every.map_or(Instant::FAR, |every| now.plus(every));
        let mut entry = Entry {
            held: Arc::clone(held),
            due: now,
            renew_at,
            in_flight_until: None,
            failures: 0,
            warned: false,
        };
        entry.due = entry.next_due();
        let due = entry.due;
        self.due.insert((due, slot), ());
        self.entries.insert(slot, entry);
        due
    }

    /// Takes a lock from under watch.
    pub(crate) fn remove(&mut self, held: &Held) {
        let slot = held.slot.load(Ordering::Acquire);
        if let Some(entry) = self.entries.remove(&slot) {
            self.due.remove(&(entry.due, slot));
        }
    }

    /// Takes all locks from under watch.
    pub(crate) fn clear(&mut self) -> Vec<Arc<Held>> {
        self.due.clear();
        std::mem::take(&mut self.entries).into_values().map(|entry| entry.held).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many locks were put under watch so far.
    pub(crate) fn watched(&self) -> u64 {
        self.last_slot
    }

    /// Longest time between two looks at the clock.
    pub(crate) fn check_every(&self) -> Duration {
        self.check_every.unwrap_or(CHECK_MOST)
    }

    /// Ends what has run out, warns of what is in jeopardy, and says what to renew.
    pub(crate) fn tick(&mut self, now: Instant) -> Tick {
        let mut tick = Tick::default();
        while let Some((&(due, slot), ())) = self.due.first_key_value() {
            if due > now {
                break;
            }
            self.due.pop_first();
            self.settle(slot, now, &mut tick);
        }
        self.gather(now, &mut tick);
        if self.entries.is_empty() {
            self.check_every = None;
        }
        tick.next = self.due.first_key_value().map(|(&(due, _), ())| due);
        tick
    }

    /// Notes a renewal's success: the next one is due an interval after it was sent.
    pub(crate) fn renewed(&mut self, held: &Held, sent: Instant) {
        self.reschedule(held, |entry| {
            entry.failures = 0;
            entry.warned = false;
            entry.renew_at = entry.held.timing().renew_every.map_or(Instant::FAR, |every| sent.plus(every));
        });
    }

    /// Makes a renewal due now, unless one is under way.
    pub(crate) fn renew_now(&mut self, held: &Held, now: Instant) {
        let under_way = |entry: &Entry| entry.in_flight_until.is_some();
        if self.entries.get(&held.slot.load(Ordering::Acquire)).is_some_and(|entry| !under_way(entry)) {
            self.reschedule(held, |entry| entry.renew_at = now);
        }
    }

    /// Notes a renewal's failure: it is repeated after a pause that grows up to a sixth of the ttl.
    pub(crate) fn failed(&mut self, held: &Held, kind: ErrorKind, now: Instant) {
        held.note_trouble(kind);
        self.reschedule(held, |entry| {
            let most = entry.held.lease().ttl / 6;
            let pause = (most / 8).saturating_mul(1 << entry.failures.min(3)).min(most);
            entry.failures = entry.failures.saturating_add(1);
            entry.renew_at = now.plus(jittered(pause));
        });
    }

    fn reschedule(&mut self, held: &Held, change: impl FnOnce(&mut Entry)) {
        let slot = held.slot.load(Ordering::Acquire);
        let Some(entry) = self.entries.get_mut(&slot) else { return };
        self.due.remove(&(entry.due, slot));
        entry.in_flight_until = None;
        change(entry);
        entry.due = entry.next_due();
        self.due.insert((entry.due, slot), ());
    }

    fn settle(&mut self, slot: u64, now: Instant, tick: &mut Tick) {
        let Some(entry) = self.entries.get_mut(&slot) else { return };
        let held = Arc::clone(&entry.held);
        if now >= held.valid_until() {
            self.entries.remove(&slot);
            held.settle();
            return;
        }
        if now >= held.jeopardy_at() && !entry.warned {
            entry.warned = true;
            held.announce_jeopardy();
        }
        if entry.in_flight_until.is_some_and(|until| now >= until) {
            entry.in_flight_until = None;
        }
        if entry.wants_renewal(now) {
            entry.start_renewal(now);
            tick.renew.push(held);
        }
        entry.due = entry.next_due();
        self.due.insert((entry.due, slot), ());
    }

    /// Adds what is due soon, so that a batch is worth its round trip.
    fn gather(&mut self, now: Instant, tick: &mut Tick) {
        let Some(every) = tick.renew.first().and_then(|held| held.timing().renew_every) else { return };
        let horizon = now.plus(every / GATHER);
        let soon: Vec<u64> = self.due.range(..=(horizon, u64::MAX)).map(|(&(_, slot), ())| slot).collect();
        for slot in soon {
            let Some(entry) = self.entries.get_mut(&slot) else { continue };
            if entry.failures == 0 && entry.wants_renewal(horizon) {
                self.due.remove(&(entry.due, slot));
                entry.start_renewal(now);
                tick.renew.push(Arc::clone(&entry.held));
                entry.due = entry.next_due();
                self.due.insert((entry.due, slot), ());
            }
        }
    }
}

impl Entry {
    fn wants_renewal(&self, now: Instant) -> bool {
        self.in_flight_until.is_none() && now >= self.renew_at && now < self.held.renewable_until()
    }

    fn start_renewal(&mut self, now: Instant) {
        // Twice the time-out: the answer is normally noted long before.
        self.in_flight_until = Some(now.plus(self.held.timing().op_timeout * 2));
    }

    fn next_due(&self) -> Instant {
        let renewal = match self.in_flight_until {
            Some(until) => until,
            None if self.renew_at < self.held.renewable_until() => self.renew_at,
            None => Instant::FAR,
        };
        let warning = if self.warned { Instant::FAR } else { self.held.jeopardy_at() };
        renewal.min(warning).min(self.held.valid_until())
    }
}
