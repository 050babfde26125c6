//! One claim to remove from the store.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::claim::Claim;
use crate::client::Turn;
use crate::clock::Instant;
use crate::fencing::FencingToken;
use crate::held::Held;
use crate::lease::Lease;

/// For how long stores keep a place in the queue that is not refreshed, though the ttl be shorter.
const PLACE: Duration = Duration::from_secs(5);
/// Pauses between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// The longest that one try is waited for, unless operations may take longer.
const LIMIT_MOST: Duration = Duration::from_secs(2);

/// One claim to remove from the store.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(super) claim: Claim,
    /// Of what was granted, if it is known to have been.
    pub(super) token: Option<FencingToken>,
    ttl: Duration,
    pub(super) op_timeout: Duration,
    /// Whether a request of this claim may still be on its way: then one sweep is not enough.
    pub(super) doubtful: bool,
    /// Whether the store acknowledged a release already, so that only the later sweep is left.
    pub(super) acknowledged: bool,
    /// Passed on after the first try, however that ends: who comes next finds out for itself.
    pub(super) turn: Option<Turn>,
    tries: Option<Tries>,
}

/// How far it got.
#[derive(Debug)]
struct Tries {
    /// When the record must have run out by itself.
    give_up: Instant,
    pauses: Backoff,
    /// How long the next try may take. Nobody waits for it, and a store that is slow for many does more for a few
    /// patient calls than for many that are not.
    limit: Duration,
    /// When the next one is due; none before the first.
    next: Option<Instant>,
}

impl Sweep {
    /// The release of a held lock.
    pub(crate) fn of(held: &Held, turn: Option<Turn>) -> Self {
        Self {
            claim: held.lease().claim.clone(),
            token: Some(held.lease().token),
            ttl: held.lease().ttl,
            op_timeout: held.timing().op_timeout,
            doubtful: held.doubtful(),
            acknowledged: false,
            turn,
            tries: None,
        }
    }

    /// The withdrawal of an attempt of which nobody knows how far it got: perhaps into the queue.
    pub(crate) fn withdrawal(claim: Claim, ttl: Duration, op_timeout: Duration, turn: Option<Turn>) -> Self {
        let ttl = ttl.max(PLACE);
        Self { claim, token: None, ttl, op_timeout, doubtful: true, acknowledged: false, turn, tries: None }
    }

    /// The withdrawal of a grant that came to nobody.
    pub(crate) fn of_grant(lease: Lease, ttl: Duration, op_timeout: Duration, turn: Option<Turn>) -> Self {
        let token = Some(lease.token);
        Self { token, ..Self::withdrawal(lease.claim, ttl, op_timeout, turn) }
    }

    /// The later sweep alone, after a release that the store acknowledged.
    pub(crate) const fn acknowledged(mut self) -> Self {
        self.acknowledged = true;
        self
    }

    /// Whether only the later sweep is left to do.
    pub(crate) const fn is_for_later(&self) -> bool {
        self.acknowledged && self.doubtful
    }

    /// When the next try is due, if there was one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.tries.as_ref().and_then(|tries| tries.next)
    }

    /// Whether its time is counted.
    pub(super) const fn has_begun(&self) -> bool {
        self.tries.is_some()
    }

    /// Counts the time until the record must have run out from `now` on.
    pub(super) fn begin(&mut self, now: Instant) {
        self.tries = Some(Tries {
            give_up: now.plus(self.ttl).plus(self.op_timeout * 2),
            pauses: Backoff::new(PAUSES.0, PAUSES.1),
            limit: self.op_timeout,
            next: None,
        });
    }

    /// How long a try at `now` may take, unless the record must have run out by then.
    pub(super) fn limit(&self, now: Instant) -> Option<Duration> {
        self.tries.as_ref().filter(|tries| now < tries.give_up).map(|tries| tries.limit)
    }

    /// Notes a try without success that ended at `now`, and whether there is time for another.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        let Some(tries) = &mut self.tries else { return false };
        let next = now.plus(tries.pauses.pause());
        tries.next = Some(next);
        tries.limit = (tries.limit * 2).min(LIMIT_MOST).max(self.op_timeout);
        next < tries.give_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LockKey;
    use crate::owner::OwnerId;

    #[test]
    fn each_try_gets_more_time_until_the_record_must_have_run_out() {
        let claim = Claim::new(LockKey::new("jobs/nightly").unwrap(), OwnerId::random());
        let ms = Duration::from_millis;
        let mut sweep = Sweep::withdrawal(claim, ms(600), ms(100), None);
        let mut now = Instant::from_nanos(1);
        sweep.begin(now);
        let mut limits = Vec::new();
        while let Some(limit) = sweep.limit(now) {
            limits.push(limit);
            now = now.plus(limit);
            if !sweep.failed(now) {
                break;
            }
            assert!(sweep.next() > Some(now));
            now = sweep.next().unwrap();
        }
        assert_eq!(limits[..5], [ms(100), ms(200), ms(400), ms(800), ms(1600)]);
        assert!(now.since(Instant::from_nanos(1)) <= PLACE + ms(200) + ms(1600) + ms(1000));
        assert!(sweep.limit(now).is_none() || !sweep.failed(now));
    }
}
