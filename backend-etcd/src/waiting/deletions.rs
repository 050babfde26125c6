//! The deletions of late.

use std::collections::{HashMap, VecDeque};

use distlock_core::OwnerId;

/// How many deletions are remembered: more than come between an answer and the wait that follows it.
const LENGTH: usize = 4096;

/// The deletions of late, by whose record it was, so that one between an attempt's answer and the wait
/// that follows it is not missed. The store's revisions say which was first.
#[derive(Debug)]
pub(super) struct Deletions {
    /// What happened up to this revision is forgotten, or was never heard.
    known_after: i64,
    order: VecDeque<(i64, OwnerId)>,
    last: HashMap<OwnerId, i64>,
}

impl Default for Deletions {
    /// Nothing is heard yet.
    fn default() -> Self {
        Self { known_after: i64::MAX, order: VecDeque::new(), last: HashMap::new() }
    }
}

impl Deletions {
    /// A record was deleted at this revision.
    pub(super) fn add(&mut self, owner: OwnerId, revision: i64) {
        self.last.insert(owner, revision);
        self.order.push_back((revision, owner));
        if self.order.len() > LENGTH
            && let Some((revision, owner)) = self.order.pop_front()
        {
            self.known_after = self.known_after.max(revision);
            if self.last.get(&owner) == Some(&revision) {
                self.last.remove(&owner);
            }
        }
    }

    /// All that happens after this revision is heard from now on, and nothing before it was.
    pub(super) fn begin(&mut self, revision: i64) {
        self.known_after = revision;
        self.order.clear();
        self.last.clear();
    }

    /// Nothing is heard any more.
    pub(super) fn end(&mut self) {
        self.begin(i64::MAX);
    }

    /// Whether it is known of all that happened after this revision.
    pub(super) const fn is_known_after(&self, revision: i64) -> bool {
        revision >= self.known_after
    }

    /// Whether the owner's record was deleted after this revision, as far as is known.
    pub(super) fn deleted_after(&self, owner: OwnerId, revision: i64) -> bool {
        self.last.get(&owner).is_some_and(|last| *last > revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_not_known() {
        let mut deletions = Deletions::default();
        assert!(!deletions.is_known_after(7), "nothing is heard yet");
        let (a, b) = (OwnerId::random(), OwnerId::random());
        deletions.begin(7);
        assert!(deletions.is_known_after(7) && !deletions.is_known_after(6));
        deletions.add(a, 9);
        assert!(deletions.deleted_after(a, 8) && !deletions.deleted_after(a, 9));
        assert!(!deletions.deleted_after(b, 7));
        for n in 0..LENGTH as i64 {
            deletions.add(b, 10 + n);
        }
        assert!(!deletions.is_known_after(8) && deletions.is_known_after(9));
        assert_eq!((deletions.order.len(), deletions.last.len()), (LENGTH, 1));
        deletions.end();
        assert!(!deletions.is_known_after(i64::MAX - 1));
    }
}
