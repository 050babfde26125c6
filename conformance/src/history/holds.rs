//! From events to holds.

use std::collections::BTreeMap;

use super::event::{Event, What};

/// One grant, as its holder could rely on it.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) owner: String,
    pub(crate) token: u64,
    /// When the attempt that was granted left.
    pub(crate) asked: u64,
    /// When its answer arrived.
    pub(crate) granted: u64,
    /// Tokens of repeats of the same attempt that differ from `token`.
    pub(crate) other_tokens: Vec<u64>,
    /// The definite hold, in pieces: a renewal that came too late starts a new one.
    pub(crate) pieces: Vec<Piece>,
    open: bool,
    /// When it ended in the store, as far as its owner or an operator made it end.
    closed: Option<u64>,
}

/// A stretch of a definite hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Hold {
    fn valid_until(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.until)
    }

    /// Whether a grant of this token is the answer to a repeat that left before the hold ended in the store, and
    /// says what was so before. Answers of two connections need not come in the order in which the store gave them,
    /// and a store may keep for longer, and for the `newest` grant alone, what its holder has given up as lost.
    fn was_granted_before(&self, token: u64, asked: u64, newest: bool) -> bool {
        self.token == token && self.closed.map_or(newest, |closed| asked < closed)
    }

    fn extend(&mut self, at: u64, until: u64) {
        if !self.open {
            return;
        }
        match self.pieces.last_mut() {
            Some(piece) if at <= piece.until => piece.until = piece.until.max(until),
            _ if until > at => self.pieces.push(Piece { from: at, until }),
            _ => {}
        }
    }

    fn close(&mut self, at: u64) {
        self.closed.get_or_insert(at);
        self.give_up(at);
    }

    /// The holder does not rely on it any more.
    fn give_up(&mut self, at: u64) {
        self.open = false;
        self.pieces.retain(|piece| piece.from < at);
        if let Some(piece) = self.pieces.last_mut() {
            piece.until = piece.until.min(at);
        }
    }

    /// Whether the holder relied on the lock during all of this time.
    pub(crate) fn covers(&self, from: u64, until: u64) -> bool {
        self.pieces.iter().any(|piece| piece.from <= from && until <= piece.until)
    }
}

/// The events of each key, in order.
pub(crate) fn by_key(events: &[Event]) -> BTreeMap<&str, Vec<&Event>> {
    let mut keys: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        if event.key.is_empty() {
            // The end of the recording concerns every key.
            continue;
        }
        keys.entry(&event.key).or_default().push(event);
    }
    for event in events.iter().filter(|event| event.key.is_empty()) {
        keys.values_mut().for_each(|of_key| of_key.push(event));
    }
    keys
}

/// When each call left, by its number.
pub(crate) fn calls(events: &[&Event]) -> BTreeMap<u64, u64> {
    let left = |event: &&Event| match event.what {
        What::Wait { op, .. } => Some((op, event.at)),
        ref what => Some((what.left()?, event.at)),
    };
    events.iter().filter_map(left).collect()
}

/// The holds of one key, in the order in which their grants arrived.
pub(crate) fn of(events: &[&Event]) -> Vec<Hold> {
    let calls = calls(events);
    let mut holds: Vec<Hold> = Vec::new();
    let mut lasts: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        let last = lasts.get(event.owner.as_str()).copied();
        match event.what {
            What::Granted { op, token, valid_until, .. } => {
                if let Some(hold) = last.map(|at| &mut holds[at])
                    && hold.open
                    && (event.at <= hold.valid_until() || hold.token == token)
                {
                    if hold.token != token {
                        hold.other_tokens.push(token);
                    }
                    hold.extend(event.at, valid_until);
                    continue;
                }
                let asked = calls.get(&op).copied().unwrap_or(event.at);
                let newest = holds.len().checked_sub(1);
                if last.is_some_and(|at| holds[at].was_granted_before(token, asked, last == newest)) {
                    continue;
                }
                let mut hold = Hold {
                    owner: event.owner.clone(),
                    token,
                    asked,
                    granted: event.at,
                    other_tokens: Vec::new(),
                    pieces: Vec::new(),
                    open: true,
                    closed: None,
                };
                hold.extend(event.at, valid_until);
                lasts.insert(&event.owner, holds.len());
                holds.push(hold);
            }
            What::Renewed { valid_until: until, .. } | What::Valid { until } => {
                if let Some(at) = last {
                    holds[at].extend(event.at, until);
                }
            }
            What::Unlock { .. } | What::RenewLost { .. } => {
                if let Some(at) = last {
                    holds[at].close(event.at);
                }
            }
            What::Lost { .. } => {
                if let Some(at) = last {
                    holds[at].give_up(event.at);
                }
            }
            What::Force { .. } => {
                holds.iter_mut().filter(|hold| hold.open).for_each(|hold| hold.close(event.at));
            }
            _ => {}
        }
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    fn pieces(script: &Script) -> Vec<Vec<(u64, u64)>> {
        let events = script.events();
        let by_key = by_key(&events);
        let holds = of(&by_key["k"]);
        holds.iter().map(|hold| hold.pieces.iter().map(|piece| (piece.from, piece.until)).collect()).collect()
    }

    #[test]
    fn a_hold_ends_at_its_validity_or_at_the_release() {
        let script = Script::new().grant("a", 10, 12, 1, 50).unlock("a", 40, 41).grant("b", 60, 62, 2, 90);
        assert_eq!(pieces(&script), [[(12, 40)], [(62, 90)]]);
    }

    #[test]
    fn a_late_renewal_starts_a_new_piece() {
        let script = Script::new().grant("a", 10, 12, 1, 50).renew("a", 30, 31, 70).renew("a", 60, 75, 100);
        assert_eq!(pieces(&script), [[(12, 70), (75, 100)]]);
    }

    #[test]
    fn a_repeat_answered_after_the_release_is_no_hold() {
        let script = Script::new().grant("a", 10, 12, 1, 50).unlock("a", 20, 25).grant("a", 19, 26, 1, 60);
        assert_eq!(pieces(&script), [[(12, 20)]]);
    }

    #[test]
    fn a_repeat_that_lands_after_the_loss_is_no_hold_unless_others_held_the_lock_since() {
        let lost = || Script::new().grant("a", 10, 12, 1, 50).at(50, "a", What::Lost { until: 50 });
        assert_eq!(pieces(&lost().grant("a", 60, 61, 1, 90)), [[(12, 50)]]);
        let others = lost().grant("b", 60, 61, 2, 70).grant("a", 80, 81, 1, 90);
        assert_eq!(pieces(&others), [[(12, 50)], [(61, 70)], [(81, 90)]]);
    }

    #[test]
    fn nothing_prolongs_a_released_hold() {
        let script = Script::new().grant("a", 10, 12, 1, 50).unlock("a", 20, 25).renew("a", 19, 26, 90);
        assert_eq!(pieces(&script), [[(12, 20)]]);
    }
}
