//! What this client knows of its own claims.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use distlock_core::{Claim, Instant, OwnerId};

use crate::leases::StoreLease;
use crate::record::Record;

/// A claim whose record this client has written, or has seen.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) lease: StoreLease,
    /// Whether this client got the lease, and for this record alone.
    pub(crate) is_own_lease: bool,
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
        if let Some(standing) = self.claims().get_mut(claim)
            && standing.created == created
            && standing.lease.alive_from < lease.alive_from
        {
            standing.lease = lease;
        }
    }

    pub(crate) fn forget(&self, claim: &Claim) -> Option<Standing> {
        self.claims().remove(claim)
    }

    /// A record is about to be written for a claim that belongs to this lease.
    pub(crate) fn begin(&self, claim: &Claim, lease: StoreLease) {
        self.doubts().insert(claim.clone(), lease);
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
