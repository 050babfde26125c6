//! For how long holders have been silent, as far as this program has seen.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use distlock_core::Instant;

/// Sightings are swept when there are so many.
const MANY: usize = 1024;
/// One that is so old is of no use.
const OLD: Duration = Duration::from_secs(60);

/// Since when a node has been seen unchanged at the head of its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    name: String,
    version: i32,
    /// When it was first seen so, which is later than when it became so.
    pub(crate) since: Instant,
}

impl Silence {
    /// The node was seen in this version `now`, perhaps not for the first time.
    pub(crate) fn seen(before: Option<Self>, name: &str, version: i32, now: Instant) -> Self {
        match before {
            Some(silence) if silence.name == name && silence.version == version => silence,
            _ => Self { name: name.to_owned(), version, since: now },
        }
    }
}

/// The silences that attempts which do not queue have seen, by the locks' nodes.
#[derive(Debug, Default)]
pub(crate) struct Silences(Mutex<HashMap<String, (Silence, Instant)>>);

impl Silences {
    /// Notes that a lock's holder was seen in this version; says since when.
    pub(crate) fn seen(&self, lock: &str, name: &str, version: i32, now: Instant) -> Instant {
        let mut silences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if silences.len() >= MANY {
            silences.retain(|_, (_, seen)| now.since(*seen) < OLD);
        }
        let before = silences.remove(lock).map(|(silence, _)| silence);
        let silence = Silence::seen(before, name, version, now);
        let since = silence.since;
        silences.insert(lock.to_owned(), (silence, now));
        since
    }

    /// Since when this node has been seen at the head, in whatever version.
    pub(crate) fn of(&self, lock: &str, name: &str) -> Option<Instant> {
        let silences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        silences.get(lock).filter(|(silence, _)| silence.name == name).map(|(silence, _)| silence.since)
    }

    /// The lock is not held by others any more.
    pub(crate) fn forget(&self, lock: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_first_sight_of_a_version() {
        let at = |seconds| Instant::ORIGIN.plus(Duration::from_secs(seconds));
        let silences = Silences::default();
        assert_eq!(silences.seen("/k", "a", 0, at(1)), at(1));
        assert_eq!(silences.seen("/k", "a", 0, at(2)), at(1));
        assert_eq!(silences.seen("/k", "a", 1, at(3)), at(3), "it wrote");
        assert_eq!(silences.seen("/k", "b", 1, at(4)), at(4), "another one came first");
        assert_eq!((silences.of("/k", "a"), silences.of("/k", "b")), (None, Some(at(4))));
        silences.forget("/k");
        assert_eq!(silences.of("/k", "b"), None);
    }
}
