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
        What::Ask { op, .. }
        | What::Renew { op, .. }
        | What::Unlock { op }
        | What::Force { op }
        | What::Look { op }
        | What::Wait { op, .. } => Some((op, event.at)),
        _ => None,
    };
    events.iter().filter_map(left).collect()
}

/// The holds of one key, in the order in which their grants arrived.
pub(crate) fn of(events: &[&Event]) -> Vec<Hold> {
    let calls = calls(events);
    let mut holds: Vec<Hold> = Vec::new();
    for event in events {
        let last = holds.iter().rposition(|hold| hold.owner == event.owner);
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
                let mut hold = Hold {
                    owner: event.owner.clone(),
                    token,
                    asked: calls.get(&op).copied().unwrap_or(event.at),
                    granted: event.at,
                    other_tokens: Vec::new(),
                    pieces: Vec::new(),
                    open: true,
                };
                hold.extend(event.at, valid_until);
                holds.push(hold);
            }
            What::Renewed { valid_until: until, .. } | What::Valid { until } => {
                if let Some(at) = last {
                    holds[at].extend(event.at, until);
                }
            }
            What::Unlock { .. } | What::RenewLost { .. } | What::Lost { .. } => {
                if let Some(at) = last {
                    holds[at].close(event.at);
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
    fn nothing_prolongs_a_released_hold() {
        let script = Script::new().grant("a", 10, 12, 1, 50).unlock("a", 20, 25).renew("a", 19, 26, 90);
        assert_eq!(pieces(&script), [[(12, 20)]]);
    }
}
