//! The messages of late.

use std::collections::{HashMap, VecDeque};

use super::message::Addressee;

/// How many messages are remembered: more than come between an answer and the wait that follows it.
const LENGTH: usize = 1024;

/// The messages of late, so that one that comes between an attempt's answer and the wait that follows
/// it is not missed.
#[derive(Debug, Default)]
pub(super) struct Log {
    position: u64,
    /// What came before this position is forgotten, or was never heard.
    known_from: u64,
    order: VecDeque<(u64, Addressee)>,
    last: HashMap<Addressee, u64>,
}

impl Log {
    /// The position after the last message.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// A message to `whom` came.
    pub(super) fn add(&mut self, whom: Addressee) {
        self.position += 1;
        self.last.insert(whom.clone(), self.position);
        self.order.push_back((self.position, whom));
        if self.order.len() > LENGTH
            && let Some((position, whom)) = self.order.pop_front()
        {
            self.known_from = position;
            if self.last.get(&whom) == Some(&position) {
                self.last.remove(&whom);
            }
        }
    }

    /// Messages may have been missed.
    pub(super) fn gap(&mut self) {
        self.position += 1;
        self.known_from = self.position;
        self.order.clear();
        self.last.clear();
    }

    /// Whether a message to `whom` came after `position`, as far as is known.
    pub(super) fn heard_after(&self, whom: &Addressee, position: u64) -> bool {
        position < self.known_from || self.last.get(whom).is_some_and(|last| *last > position)
    }
}

#[cfg(test)]
mod tests {
    use distlock_core::LockKey;

    use super::*;

    #[test]
    fn what_is_not_known_counts_as_heard() {
        let key = |name: &str| Addressee::All(LockKey::new(name).unwrap());
        let mut log = Log::default();
        let start = log.position();
        log.add(key("a"));
        assert!(log.heard_after(&key("a"), start) && !log.heard_after(&key("b"), start));
        assert!(!log.heard_after(&key("a"), log.position()));
        for _ in 0..LENGTH {
            log.add(key("c"));
        }
        assert!(log.heard_after(&key("b"), start), "the log begins after that");
        assert_eq!((log.order.len(), log.last.len()), (LENGTH, 1));
        let before = log.position();
        log.gap();
        assert!(log.heard_after(&key("b"), before));
        assert!(!log.heard_after(&key("b"), log.position()));
    }
}
