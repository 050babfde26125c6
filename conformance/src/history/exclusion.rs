//! H1: two definite holds of a key never overlap.

use super::Violation;
use super::holds::{Hold, Piece};

pub(crate) fn check(key: &str, holds: &[Hold]) -> Vec<Violation> {
    let mut pieces: Vec<(Piece, &Hold)> =
        holds.iter().flat_map(|hold| hold.pieces.iter().map(move |piece| (*piece, hold))).collect();
    pieces.sort_by_key(|(piece, _)| piece.from);
    let mut violations = Vec::new();
    let mut longest: Option<(Piece, &Hold)> = None;
    for (piece, hold) in pieces {
        if let Some((other, holder)) = longest
            && piece.from < other.until
            && holder.owner != hold.owner
        {
            violations.push(Violation::new(
                "H1",
                key,
                format!(
                    "{} (token {}) held it for sure from {} to {}, and {} (token {}) from {} on: {} ns too early",
                    holder.owner,
                    holder.token,
                    other.from,
                    other.until,
                    hold.owner,
                    hold.token,
                    piece.from,
                    other.until - piece.from,
                ),
            ));
        }
        if longest.is_none_or(|(other, _)| piece.until > other.until) {
            longest = Some((piece, hold));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::holds;
    use super::super::script::Script;
    use super::*;

    fn run(script: &Script) -> Vec<Violation> {
        let events = script.events();
        check("k", &holds::of(&holds::by_key(&events)["k"]))
    }

    #[test]
    fn one_after_the_other_is_right() {
        assert!(
            run(&Script::new().grant("a", 1, 2, 1, 50).unlock("a", 20, 22).grant("b", 19, 21, 2, 80))
                .is_empty()
        );
        assert!(run(&Script::new().grant("a", 1, 2, 1, 50).grant("b", 40, 51, 2, 80)).is_empty());
    }

    #[test]
    fn two_at_once_is_not() {
        let both = Script::new().grant("a", 1, 2, 1, 50).grant("b", 40, 49, 2, 80);
        assert_eq!(run(&both).len(), 1);
    }

    #[test]
    fn a_long_hold_covers_several() {
        let long = Script::new().grant("a", 1, 2, 1, 500).grant("b", 10, 11, 2, 20).grant("c", 30, 31, 3, 40);
        assert_eq!(run(&long).len(), 2);
    }

    #[test]
    fn a_validity_that_outlasts_the_store_is_seen() {
        let late = Script::new().grant("a", 1, 2, 1, 50).renew("a", 20, 45, 95).grant("b", 69, 71, 2, 120);
        assert_eq!(run(&late).len(), 1);
    }
}
