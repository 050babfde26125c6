//! Watches the holders of one lock for violations while they are measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use distlock::{FencingToken, GuardView, LockGuard};

/// Sees every hold of one lock in this process.
#[derive(Debug)]
pub(crate) struct Witness {
    origin: Instant,
    seen: Mutex<Seen>,
    /// When a holder last began to release, in nanoseconds since `origin`; zero before the first.
    released: AtomicU64,
}

#[derive(Debug, Default)]
struct Seen {
    holder: Option<GuardView>,
    last_token: Option<FencingToken>,
    violations: u64,
}

impl Witness {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), seen: Mutex::default(), released: AtomicU64::new(0) }
    }

    /// Notes a grant: nobody else may hold the lock now, and the token must have risen.
    pub(crate) fn enter(&self, guard: &LockGuard) {
        let mut seen = self.seen();
        // A hold ends when its holder says so, or when its own guard says that it was lost.
        if seen.holder.replace(guard.view()).is_some_and(|before| before.is_valid()) {
            seen.violations += 1;
        }
        if seen.last_token.replace(guard.token()).is_some_and(|last| last >= guard.token()) {
            seen.violations += 1;
        }
    }

    /// Notes that the holder is about to release; returns the instant.
    pub(crate) fn leave(&self, guard: &LockGuard) -> Instant {
        let mut seen = self.seen();
        if seen.holder.as_ref().is_some_and(|holder| holder.owner() == guard.owner()) {
            seen.holder = None;
        }
        drop(seen);
        let now = Instant::now();
        self.released.store(self.nanos(now), Ordering::Release);
        now
    }

    /// How long before `granted` the holder before began to release, if it did so while this
    /// contender, which called at `called`, waited.
    pub(crate) fn handed_off(&self, called: Instant, granted: Instant) -> Option<std::time::Duration> {
        let released = self.released.load(Ordering::Acquire);
        (released > self.nanos(called))
            .then(|| std::time::Duration::from_nanos(self.nanos(granted).saturating_sub(released)))
    }

    pub(crate) fn violations(&self) -> u64 {
        self.seen().violations
    }

    fn nanos(&self, instant: Instant) -> u64 {
        u64::try_from(instant.duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn overlaps_and_tokens_that_do_not_rise_are_violations() {
        let client = distlock::connect("memory:").await.unwrap();
        let witness = Witness::new();
        let (first, second) = (client.lock("a").await.unwrap(), client.lock("b").await.unwrap());
        witness.enter(&first);
        witness.leave(&first);
        witness.enter(&second);
        assert_eq!(witness.violations(), 0);
        witness.enter(&first);
        assert_eq!(witness.violations(), 2, "an overlap and an old token");
    }

    #[tokio::test]
    async fn a_hold_that_was_lost_may_be_followed_by_another() {
        let client = distlock::connect("memory:").await.unwrap();
        let witness = Witness::new();
        let first = client.lock("a").await.unwrap();
        witness.enter(&first);
        client.admin().unwrap().force_unlock(first.key()).await.unwrap();
        assert!(first.renew().await.unwrap_err().is_lost());
        witness.enter(&client.lock("a").await.unwrap());
        assert_eq!(witness.violations(), 0);
    }

    #[test]
    fn a_hand_off_counts_only_for_one_who_waited() {
        let witness = Witness::new();
        let called = Instant::now();
        assert_eq!(witness.handed_off(called, called), None);
        witness.released.store(witness.nanos(called) + 1, Ordering::Release);
        assert!(witness.handed_off(called, Instant::now()).is_some());
    }
}
