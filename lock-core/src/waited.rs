//! Who waited a moment ago.

use std::collections::{HashMap, VecDeque};

use crate::OwnerId;

/// So many owners are remembered. One that is forgotten costs a request more.
const REMEMBERED: usize = 4096;

/// Who waited a moment ago and is about to try again, for a backend in which only the attempts of those
/// who wait leave a mark.
#[derive(Debug, Default)]
pub struct Waited {
    by_owner: HashMap<OwnerId, u64>,
    last: u64,
    /// The notes, the oldest first; that of somebody who tried again is void.
    notes: VecDeque<(u64, OwnerId)>,
}

impl Waited {
    /// Remembers an owner; of too many, the oldest is forgotten.
    pub fn remember(&mut self, owner: OwnerId) {
        self.last += 1;
        self.by_owner.insert(owner, self.last);
        self.notes.push_back((self.last, owner));
        if self.notes.len() > REMEMBERED
            && let Some((note, owner)) = self.notes.pop_front()
            && self.by_owner.get(&owner) == Some(&note)
        {
            self.by_owner.remove(&owner);
        }
    }

    /// Whether the owner waited; that is forgotten with this.
    pub fn take(&mut self, owner: OwnerId) -> bool {
        self.by_owner.remove(&owner).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waited_is_known_once_and_nobody_for_ever() {
        let (mut waited, owner) = (Waited::default(), OwnerId::random());
        waited.remember(owner);
        assert!(waited.take(owner) && !waited.take(owner));
        waited.remember(owner);
        for _ in 0..REMEMBERED {
            waited.remember(OwnerId::random());
        }
        assert!(!waited.take(owner), "it was the oldest");
        assert_eq!((waited.by_owner.len(), waited.notes.len()), (REMEMBERED, REMEMBERED));
    }

    #[test]
    fn who_waits_over_and_over_stays_known() {
        let (mut waited, owner) = (Waited::default(), OwnerId::random());
        for _ in 0..2 * REMEMBERED {
            waited.remember(owner);
            assert!(waited.take(owner));
        }
        assert!(waited.notes.len() <= REMEMBERED);
    }
}
