//! Those of this backend who stand in queues of the store.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use distlock_core::{Lease, LockRequest, OwnerId};

/// So many places are remembered at least. One that is forgotten costs a command more.
const KEPT: usize = 4096;

/// Those of this backend who stand in queues of the store, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_owner: HashMap<OwnerId, Place>,
    last: u64,
    /// How many there were after the last clean-up.
    kept: usize,
}

#[derive(Debug)]
struct Place {
    since: u64,
    request: LockRequest,
    ttl: Duration,
    granted: Option<Lease>,
}

impl Places {
    /// The store gave `request` a place, or kept it; a grant would last for `ttl`.
    pub(super) fn take(&mut self, request: &LockRequest, ttl: Duration) {
        self.last += 1;
        let since = self.last;
        let new = || Place { since, request: request.clone(), ttl, granted: None };
        self.by_owner.entry(request.claim.owner).or_insert_with(new);
    }

    /// The place is given up, and with it what was granted and not picked up.
    pub(super) fn leave(&mut self, owner: OwnerId) {
        self.by_owner.remove(&owner);
    }

    /// Picks up what was granted; that ends the place.
    pub(super) fn pick_up(&mut self, owner: OwnerId) -> Option<Lease> {
        if self.is_granted(owner) { self.by_owner.remove(&owner)?.granted } else { None }
    }

    /// Whether a grant waits to be picked up.
    pub(super) fn is_granted(&self, owner: OwnerId) -> bool {
        self.by_owner.get(&owner).is_some_and(|place| place.granted.is_some())
    }

    /// Which of these has stood there longest, and for how long a grant would last.
    pub(super) fn first_of(&self, owners: impl Iterator<Item = OwnerId>) -> Option<(&LockRequest, Duration)> {
        let places = owners.filter_map(|owner| self.by_owner.get(&owner));
        let first = places.filter(|place| place.granted.is_none()).min_by_key(|place| place.since)?;
        Some((&first.request, first.ttl))
    }

    /// Keeps a grant until it is picked up; false if the place was given up.
    pub(super) fn grant(&mut self, lease: Lease) -> bool {
        let place = self.by_owner.get_mut(&lease.claim.owner);
        place.map(|place| place.granted = Some(lease)).is_some()
    }

    /// Whether so many are remembered that it is worth forgetting those who don't wait.
    pub(super) fn are_many(&self) -> bool {
        self.by_owner.len() > KEPT.max(2 * self.kept)
    }

    /// Forgets all but these, and what is granted.
    pub(super) fn keep(&mut self, owners: &HashSet<OwnerId>) {
        self.by_owner.retain(|owner, place| place.granted.is_some() || owners.contains(owner));
        self.kept = self.by_owner.len();
    }
}

#[cfg(test)]
mod tests {
    use distlock_core::{Claim, Clock, FencingToken, LockKey};

    use super::*;

    const TTL: Duration = Duration::from_secs(9);

    fn request() -> LockRequest {
        LockRequest::new(Claim::mint(LockKey::new("k").unwrap()), TTL)
    }

    #[test]
    fn the_first_is_who_came_first_however_often_it_showed_itself() {
        let mut places = Places::default();
        let (first, second) = (request(), request());
        places.take(&first, TTL);
        places.take(&second, TTL);
        places.take(&first, TTL);
        let both = [second.claim.owner, first.claim.owner];
        assert_eq!(places.first_of(both.into_iter()), Some((&first, TTL)));
        assert_eq!(places.first_of(both[..1].iter().copied()), Some((&second, TTL)));
        places.leave(first.claim.owner);
        assert_eq!(places.first_of(both.into_iter()), Some((&second, TTL)));
    }

    #[test]
    fn a_grant_is_picked_up_once_and_by_its_owner_alone() {
        let mut places = Places::default();
        let one = request();
        let lease = Lease::granted(&one, FencingToken::new(7).unwrap(), TTL, Clock::system().now());
        assert!(!places.grant(lease.clone()), "it has no place");
        places.take(&one, TTL);
        assert_eq!(places.pick_up(one.claim.owner), None);
        assert!(places.grant(lease.clone()), "asking for it does not cost the place");
        assert_eq!(places.first_of([one.claim.owner].into_iter()), None, "it need not wait any more");
        assert_eq!(places.pick_up(one.claim.owner), Some(lease.clone()));
        assert_eq!(places.pick_up(one.claim.owner), None);
        places.take(&one, TTL);
        assert!(places.grant(lease));
        places.leave(one.claim.owner);
        assert_eq!(places.pick_up(one.claim.owner), None, "it was given up");
    }

    #[test]
    fn who_does_not_wait_is_not_remembered_for_ever() {
        let mut places = Places::default();
        let waits = request();
        places.take(&waits, TTL);
        for _ in 0..KEPT {
            assert!(!places.are_many());
            places.take(&request(), TTL);
        }
        assert!(places.are_many());
        places.keep(&HashSet::from([waits.claim.owner]));
        assert_eq!((places.by_owner.len(), places.are_many()), (1, false));
    }
}
