//! How long the first record of a queue has not been written.
//!
//! etcd counts leases in whole seconds and has a floor for them. A lock with a shorter ttl is kept by
//! writing its record; whoever stands directly behind it counts, on its own clock, for how long that
//! was not done. It can only begin late, so nobody is taken for dead early.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Instant, LockKey};

use crate::queue::Entry;

/// So many locks are remembered before those that nobody asked for of late are forgotten.
const REMEMBERED: usize = 1024;

/// The first records that were seen of late, and since when they are as they are.
#[derive(Debug, Default)]
pub(crate) struct Silences(Mutex<HashMap<LockKey, Silence>>);

#[derive(Debug)]
struct Silence {
    name: Vec<u8>,
    modified: i64,
    since: Instant,
    asked: Instant,
}

impl Silences {
    /// For how long the first record of the queue is known to have been first and unwritten. `now` is
    /// an instant after the answer that showed it.
    pub(crate) fn of(&self, key: &LockKey, first: &Entry, now: Instant) -> Duration {
        let mut seen = self.seen();
        if seen.len() >= REMEMBERED && !seen.contains_key(key) {
            forget_some(&mut seen);
        }
        let silence = seen.entry(key.clone()).or_insert_with(|| Silence {
            name: first.name.clone(),
            modified: 0,
            since: now,
            asked: now,
        });
        if silence.name != first.name {
            silence.name.clone_from(&first.name);
            silence.modified = 0;
        }
        // A watch may have told of a later write than the answer shows.
        if silence.modified < first.modified {
            (silence.modified, silence.since) = (first.modified, now);
        }
        silence.asked = now;
        now.since(silence.since)
    }

    /// Whether it is of use to hear when a record is written.
    pub(crate) fn is_counting(&self) -> bool {
        !self.seen().is_empty()
    }

    /// A record was written, as a watch tells.
    pub(crate) fn written(&self, key: &LockKey, name: &[u8], modified: i64, now: Instant) {
        if let Some(silence) = self.seen().get_mut(key)
            && silence.name == name
            && silence.modified < modified
        {
            (silence.modified, silence.since) = (modified, now);
        }
    }

    /// A record is gone.
    pub(crate) fn deleted(&self, key: &LockKey, name: &[u8]) {
        let mut seen = self.seen();
        if seen.get(key).is_some_and(|silence| silence.name == name) {
            seen.remove(key);
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<LockKey, Silence>> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the half that nobody asked for the longest.
fn forget_some(seen: &mut HashMap<LockKey, Silence>) {
    let mut asked: Vec<_> = seen.values().map(|silence| silence.asked).collect();
    asked.sort_unstable();
    let Some(middle) = asked.get(asked.len() / 2).copied() else { return };
    seen.retain(|_, silence| silence.asked > middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, modified: i64) -> Entry {
        Entry { name: name.into(), value: Vec::new(), created: 1, modified, lease: 0 }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn it_counts_from_the_first_look_at_the_latest_write() {
        let (silences, key) = (Silences::default(), LockKey::new("k").unwrap());
        assert!(!silences.is_counting());
        let of = |entry: &Entry, now| silences.of(&key, entry, at(now)).as_millis();
        assert_eq!(of(&entry("a", 5), 0), 0);
        assert_eq!(of(&entry("a", 5), 300), 300);
        assert_eq!(of(&entry("a", 6), 400), 0, "it was written");
        silences.written(&key, b"a", 7, at(450));
        silences.written(&key, b"b", 9, at(460));
        assert_eq!(of(&entry("a", 6), 500), 50, "a watch knew of a later write");
        assert_eq!(of(&entry("b", 2), 600), 0, "another one is first");
        assert!(silences.is_counting());
        silences.deleted(&key, b"b");
        assert!(!silences.is_counting());
        assert_eq!(of(&entry("b", 2), 700), 0);
    }

    #[test]
    fn nobody_is_remembered_for_ever() {
        let silences = Silences::default();
        for n in 0..3000_u64 {
            silences.of(&LockKey::new(n.to_string()).unwrap(), &entry("a", 1), at(n));
        }
        assert!(silences.seen().len() <= REMEMBERED);
    }
}
