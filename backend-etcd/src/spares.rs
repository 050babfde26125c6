//! Leases of locks that were given back, kept for the next locks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::Instant;

use crate::leases::{StoreLease, whole_seconds};

/// So many are kept.
const KEPT: usize = 64;

/// Leases that no record belongs to any more. To grant a lease is a write of its own in the cluster's log, and to prolong one is
/// none, so the next lock of the same ttl takes one of these.
///
/// None is put here while a record may still be written that belongs to it.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    spares: Vec<Spare>,
    reserved: usize,
}

#[derive(Clone, Copy, Debug)]
struct Spare {
    /// The seconds that were asked for; the store may have given more.
    asked: i64,
    lease: StoreLease,
}

/// Room for one more.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Spares);

impl Spares {
    /// One that was asked for with such a ttl, with at least half of its time left, and unknown to leaders before this `term`.
    pub(crate) fn take(&self, ttl: Duration, now: Instant, term: u64) -> Option<StoreLease> {
        let mut places = self.places();
        places.spares.retain(|spare| spare.is_fresh(now) && spare.lease.granted_in >= term);
        let at = places.spares.iter().rposition(|spare| spare.asked == whole_seconds(ttl))?;
        Some(places.spares.remove(at).lease)
    }

    /// Room for one more, if there is any.
    pub(crate) fn place(&self, now: Instant) -> Option<Place<'_>> {
        let mut places = self.places();
        places.spares.retain(|spare| spare.is_fresh(now));
        let has_room = places.spares.len() + places.reserved < KEPT;
        has_room.then(|| {
            places.reserved += 1;
            Place(self)
        })
    }

    /// Forgets all of them, and says which they were.
    pub(crate) fn clear(&self) -> Vec<i64> {
        self.places().spares.drain(..).map(|spare| spare.lease.id).collect()
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Keeps a lease that was asked for with this ttl.
    pub(crate) fn fill(self, ttl: Duration, lease: StoreLease) {
        self.0.places().spares.push(Spare { asked: whole_seconds(ttl), lease });
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.places().reserved -= 1;
    }
}

impl Spare {
    fn is_fresh(&self, now: Instant) -> bool {
        now.since(self.lease.alive_from) < self.lease.ttl / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(9500);
    const TERM: u64 = 3;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.plus(Duration::from_secs(seconds))
    }

    fn lease(id: i64) -> StoreLease {
        StoreLease { id, ttl: Duration::from_secs(10), alive_from: at(100), granted_in: TERM, kept_in: TERM }
    }

    #[test]
    fn a_lease_is_for_locks_of_its_ttl_and_taken_once() {
        let spares = Spares::default();
        spares.place(at(100)).unwrap().fill(TTL, lease(1));
        assert_eq!(spares.take(TTL * 2, at(100), TERM), None);
        assert_eq!(
            spares.take(Duration::from_secs(10), at(100), TERM),
            Some(lease(1)),
            "as the store counts it"
        );
        assert_eq!(spares.take(TTL, at(100), TERM), None);
    }

    #[test]
    fn a_lease_whose_time_runs_out_is_not_given() {
        let spares = Spares::default();
        spares.place(at(100)).unwrap().fill(TTL, lease(1));
        assert_eq!(spares.take(TTL, at(105), TERM), None);
        assert!(spares.clear().is_empty());
    }

    #[test]
    fn a_lease_that_a_former_leader_knows_is_not_given() {
        let spares = Spares::default();
        spares.place(at(100)).unwrap().fill(TTL, lease(1));
        assert_eq!(spares.take(TTL, at(100), TERM + 1), None);
        assert!(spares.clear().is_empty());
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let spares = Spares::default();
        let places: Vec<_> = (0..KEPT).map(|_| spares.place(at(100)).unwrap()).collect();
        assert!(spares.place(at(100)).is_none());
        drop(places);
        for id in 0..KEPT {
            spares.place(at(100)).unwrap().fill(TTL, lease(i64::try_from(id).unwrap()));
        }
        assert!(spares.place(at(100)).is_none());
        assert!(spares.place(at(105)).is_some(), "they are over by then");
    }
}
