//! H4: a late renewal or release of an earlier owner never touches its successor.

use std::collections::BTreeMap;

use super::event::{Event, What, nanos};
use super::holds::{Hold, calls};
use super::spans::Spans;
use super::{Promises, Violation};

/// Where a failover may lose a hold, its holder and the next one overlap, and the store rightly shows
/// and serves the next one: then only what an earlier owner, by its token, did to a later one counts.
pub(crate) fn check(key: &str, events: &[&Event], holds: &[Hold], promises: Promises) -> Vec<Violation> {
    let pieces = holds.iter().flat_map(|hold| hold.pieces.iter().map(move |piece| (piece, hold)));
    let pieces = Spans::new(pieces.map(|(piece, hold)| (piece.from, piece.until, hold)));
    let mut violations = foreign_successes(key, events, holds, &pieces, promises.exclusion);
    if promises.exclusion {
        violations.extend(wrong_sights(key, events, &pieces, nanos(promises.sight)));
    }
    violations
}

/// Renewals and releases that succeeded while somebody else held the lock for sure.
fn foreign_successes(
    key: &str,
    events: &[&Event],
    holds: &[Hold],
    pieces: &Spans<&Hold>,
    exclusion: bool,
) -> Vec<Violation> {
    let calls = calls(events);
    let mut firsts: BTreeMap<&str, u64> = BTreeMap::new();
    for hold in holds {
        firsts.entry(&hold.owner).or_insert(hold.token);
    }
    let mut violations = Vec::new();
    for event in events {
        let (op, what) = match event.what {
            What::Renewed { op, .. } => (op, "a renewal"),
            What::Unlocked { op, released: true } => (op, "a release"),
            _ => continue,
        };
        let Some(&left) = calls.get(&op) else { continue };
        let own = firsts.get(event.owner.as_str());
        let counts = |hold: &&&Hold| exclusion || own.is_some_and(|own| *own < hold.token);
        let mut then =
            pieces.during(left, event.at).filter(|hold| hold.covers(left, event.at)).filter(counts);
        let victim = then.find(|hold| hold.owner != event.owner);
        if let Some(victim) = victim {
            violations.push(Violation::new(
                "H4",
                key,
                format!(
                    "{what} by {} succeeded between {left} and {}, while {} held the lock",
                    event.owner, event.at, victim.owner
                ),
            ));
        }
    }
    violations
}

/// Looks into the store that show somebody else, or less time than before, under a definite hold.
fn wrong_sights(key: &str, events: &[&Event], pieces: &Spans<&Hold>, exact_to: u64) -> Vec<Violation> {
    let calls = calls(events);
    let mut violations = Vec::new();
    // For each holder the end that its record must not fall below: look left + time left.
    let mut promised: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events {
        let What::Seen { op, holder, token, left } = &event.what else { continue };
        let Some(&looked) = calls.get(op) else { continue };
        let mut then = pieces.during(looked, event.at);
        let Some(hold) = then.find(|hold| hold.covers(looked, event.at)) else { continue };
        if holder.as_ref() != Some(&hold.owner) || token.is_some_and(|token| token != hold.token) {
            violations.push(Violation::new(
                "H4",
                key,
                format!(
                    "the store showed {holder:?} with token {token:?} at {}, while {} held it with {}",
                    event.at, hold.owner, hold.token
                ),
            ));
            continue;
        }
        let Some(left) = left else { continue };
        let least = promised.entry(&hold.owner).or_default();
        let (lower, upper) = (looked.saturating_add(*left), event.at.saturating_add(*left));
        if upper.saturating_add(exact_to) < *least {
            violations.push(Violation::new(
                "H4",
                key,
                format!("the expiry of {} was brought forward from {least} to {upper} or before", hold.owner),
            ));
        }
        *least = lower.max(*least);
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::holds;
    use super::super::script::Script;
    use super::*;

    const MS: u64 = 1_000_000;

    fn promises() -> Promises {
        Promises::of(distlock_core::LockBackend::info(&distlock_core::MemoryBackend::new()))
    }

    fn run(script: &Script) -> Vec<Violation> {
        let events = script.events();
        let of_key = &holds::by_key(&events)["k"];
        check("k", of_key, &holds::of(of_key), promises())
    }

    /// After failovers.
    fn run_with_overlaps(script: &Script) -> Vec<Violation> {
        let events = script.events();
        let of_key = &holds::by_key(&events)["k"];
        check("k", of_key, &holds::of(of_key), promises().without_exclusion())
    }

    #[test]
    fn after_a_failover_only_what_an_earlier_owner_does_to_a_later_one_counts() {
        let lost = Script::new().grant("a", 1, 2, 1, 90).grant("b", 20, 21, 2, 60);
        let later = lost.clone().look(25, "b", 2, 40).renew("b", 30, 31, 90).unlock("b", 50, 51);
        assert_eq!(run_with_overlaps(&later), []);
        assert!(!run(&later).is_empty(), "where nothing is lost it does");
        assert_eq!(run_with_overlaps(&lost.unlock("a", 30, 31)).len(), 1);
    }

    #[test]
    fn late_calls_without_effect_are_right() {
        let script = Script::new()
            .grant("a", 1, 2, 1, 10)
            .grant("b", 20, 21, 2, 60)
            .unlocked("a", 30, 31, false)
            .look(35, "b", 2, 40)
            .unlock("b", 50, 51);
        assert_eq!(run(&script), []);
    }

    #[test]
    fn a_release_that_ends_anothers_hold_is_not() {
        let script = Script::new().grant("a", 1, 2, 1, 10).grant("b", 20, 21, 2, 60).unlock("a", 30, 31);
        assert_eq!(run(&script).len(), 1);
    }

    #[test]
    fn a_renewal_over_anothers_hold_is_not() {
        let script = Script::new().grant("a", 1, 2, 1, 10).grant("b", 20, 21, 2, 60).renew("a", 30, 31, 90);
        assert_eq!(run(&script).len(), 1);
    }

    #[test]
    fn a_store_that_tells_whole_seconds_may_differ_by_one_and_no_more() {
        let mut by_seconds = promises();
        by_seconds.sight = std::time::Duration::from_secs(1);
        for (left, count) in [(4_000 * MS, 0), (2_900 * MS, 1)] {
            let script = Script::new().grant("b", 20, 21, 2, 60_000 * MS).look(MS, "b", 2, 5_000 * MS).look(
                2 * MS,
                "b",
                2,
                left,
            );
            let events = script.events();
            let of_key = &holds::by_key(&events)["k"];
            assert_eq!(check("k", of_key, &holds::of(of_key), by_seconds).len(), count);
            assert_eq!(run(&script).len(), 1);
        }
    }

    #[test]
    fn another_holder_or_an_earlier_end_in_the_store_is_not() {
        let other = Script::new().grant("b", 20, 21, 2, 60).look(30, "a", 1, 10);
        let sooner = Script::new().grant("b", 20, 21, 2, 60 * MS).look(10 * MS, "b", 2, 50 * MS).look(
            20 * MS,
            "b",
            2,
            5 * MS,
        );
        for script in [other, sooner] {
            assert_eq!(run(&script).len(), 1);
        }
    }
}
