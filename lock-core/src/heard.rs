//! The messages of late.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// How many messages are remembered: more than come between an answer and the wait that follows it.
const LENGTH: usize = 1024;

/// The messages of late, by whom they concern, so that one that comes between an attempt's answer and
/// the wait that follows it is not missed.
#[derive(Debug)]
pub struct Heard<W> {
    position: u64,
    /// What came before this position is forgotten, or was never heard.
    known_from: u64,
    order: VecDeque<(u64, W)>,
    last: HashMap<W, u64>,
}

impl<W> Default for Heard<W> {
    fn default() -> Self {
        Self { position: 0, known_from: 0, order: VecDeque::new(), last: HashMap::new() }
    }
}

impl<W: Clone + Eq + Hash> Heard<W> {
    /// The position after the last message.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// A message to `whom` came.
    pub fn add(&mut self, whom: W) {
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
    pub fn gap(&mut self) {
        self.position += 1;
        self.known_from = self.position;
        self.order.clear();
        self.last.clear();
    }

    /// Whether a message to `whom` came after `position`, as far as is known.
    #[must_use]
    pub fn heard_after(&self, whom: &W, position: u64) -> bool {
        position < self.known_from || self.last.get(whom).is_some_and(|last| *last > position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_counts_as_heard() {
        let mut log = Heard::default();
        let start = log.position();
        log.add("a");
        assert!(log.heard_after(&"a", start) && !log.heard_after(&"b", start));
        assert!(!log.heard_after(&"a", log.position()));
        for _ in 0..LENGTH {
            log.add("c");
        }
        assert!(log.heard_after(&"b", start), "the log begins after that");
        assert_eq!((log.order.len(), log.last.len()), (LENGTH, 1));
        let before = log.position();
        log.gap();
        assert!(log.heard_after(&"b", before));
        assert!(!log.heard_after(&"b", log.position()));
    }
}
