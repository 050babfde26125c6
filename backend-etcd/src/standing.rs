//! What this client knows of its own claims.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use distlock_core::{Claim, Instant, OwnerId};

use crate::leases::StoreLease;
use crate::record::Record;

/// With so many claims in doubt, those are forgotten whose leases ended long ago.
const MANY: usize = 256;

/// A claim whose record this client has written, or has seen.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) lease: StoreLease,
    /// Whether this client got the lease, and for this record alone.
    pub(crate) is_own_lease: bool,
    /// Another lease that the record may be on by now, or may come to be: see [`moving`](crate::moving).
    pub(crate) moving: Option<StoreLease>,
    pub(crate) record: Record,
    /// The revision that created its record.
    pub(crate) created: i64,
    /// Whether it was granted the lock.
    pub(crate) is_granted: bool,
    /// Who stands directly before it.
    pub(crate) before: Option<OwnerId>,
}

/// What this client knows of its own claims: from the first answer about a record to its release. What
/// is not known can be read again.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    claims: Mutex<HashMap<Claim, Standing>>,
    doubts: Mutex<HashMap<Claim, StoreLease>>,
}

impl Standings {
    pub(crate) fn of(&self, claim: &Claim) -> Option<Standing> {
        self.claims().get(claim).cloned()
    }

    pub(crate) fn note(&self, claim: &Claim, standing: Standing) {
        self.claims().insert(claim.clone(), standing);
    }

    /// Notes that a lease was prolonged, or the record written anew, if it is still the same record.
    pub(crate) fn prolonged(&self, claim: &Claim, created: i64, lease: StoreLease) {
        self.update(claim, created, |standing| {
            if standing.lease.id == lease.id && standing.lease.alive_from < lease.alive_from {
                standing.lease = lease;
            }
        });
    }

    /// Changes what is known of a record, if it is still that one; says whether it is.
    pub(crate) fn update(&self, claim: &Claim, created: i64, change: impl FnOnce(&mut Standing)) -> bool {
        match self.claims().get_mut(claim).filter(|standing| standing.created == created) {
            Some(standing) => {
                change(standing);
                true
            }
            None => false,
        }
    }

    pub(crate) fn forget(&self, claim: &Claim) -> Option<Standing> {
        self.claims().remove(claim)
    }

    /// A record is about to be written for a claim that belongs to this lease. `ends_alone`: nobody else prolongs that.
    pub(crate) fn begin(&self, claim: &Claim, lease: StoreLease, ends_alone: bool, now: Instant) {
        let mut doubts = self.doubts();
        if ends_alone && doubts.len() >= MANY {
            // Of claims that nobody got to release in time. One that goes on has its lease prolonged.
            let claims = self.claims();
            doubts.retain(|claim, lease| {
                claims.contains_key(claim) || now.since(lease.alive_from) < lease.ttl * 2
            });
        }
        doubts.insert(claim.clone(), lease);
    }

    /// The lease of a record that may have been written, or may be yet: nobody heard the answer.
    pub(crate) fn in_doubt(&self, claim: &Claim) -> Option<StoreLease> {
        self.doubts().get(claim).copied()
    }

    /// There was an answer, or the lease is ended.
    pub(crate) fn settle(&self, claim: &Claim) -> Option<StoreLease> {
        self.doubts().remove(claim)
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Claim, Standing>> {
        // Every change is complete before anything can panic.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doubts(&self) -> MutexGuard<'_, HashMap<Claim, StoreLease>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    /// From when the ttl of a record counts that was written by a request sent at `sent`: not for longer
    /// than the store certainly has its lease.
    pub(crate) fn counts_from(&self, sent: Instant) -> Instant {
        sent.min(self.lease.alive_from.plus(self.lease.ttl.saturating_sub(self.record.ttl)))
    }

    /// Until when the store certainly has its lease.
    pub(crate) fn lease_until(&self) -> Instant {
        self.lease.alive_from.plus(self.lease.ttl)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use distlock_core::{LockKey, Metadata};

    use super::*;
    use crate::record::Kind;

    #[test]
    fn doubts_of_leases_that_are_over_are_not_kept_for_ever() {
        const TTL: Duration = Duration::from_secs(10);
        let standings = Standings::default();
        let at = |seconds| Instant::ORIGIN.plus(Duration::from_secs(seconds));
        let begin = |ends_alone, now| {
            let claim = Claim::new(LockKey::new("key").unwrap(), OwnerId::random());
            let lease = StoreLease { id: 1, ttl: TTL, alive_from: now, granted_in: 1, kept_in: 1 };
            standings.begin(&claim, lease, ends_alone, now);
            claim
        };
        let held = begin(true, at(100));
        let lease = standings.in_doubt(&held).unwrap();
        let record = Record { kind: Kind::Lease, ttl: TTL, base: 0, metadata: Metadata::default() };
        let standing = Standing {
            lease,
            is_own_lease: true,
            moving: None,
            record,
            created: 1,
            is_granted: true,
            before: None,
        };
        standings.note(&held, standing);
        (1..2 * MANY).for_each(|_| drop(begin(true, at(100))));
        let late = begin(true, at(115));
        assert_eq!(standings.doubts().len(), 2 * MANY + 1, "they may still be prolonged");
        begin(false, at(130));
        assert_eq!(standings.doubts().len(), 2 * MANY + 2, "others prolong theirs");
        begin(true, at(130));
        assert_eq!(standings.doubts().len(), 4);
        assert!([held, late].iter().all(|claim| standings.in_doubt(claim).is_some()));
    }
}
