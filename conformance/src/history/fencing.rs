//! H2: tokens of a key are distinct, rise with every grant, and stay the same under a repeat.

use std::collections::BTreeMap;

use super::Violation;
use super::event::Event;
use super::holds::Hold;

pub(crate) fn check(key: &str, _events: &[&Event], holds: &[Hold]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut owners: BTreeMap<u64, &str> = BTreeMap::new();
    for hold in holds {
        if let Some(earlier) = owners.insert(hold.token, &hold.owner) {
            violations.push(Violation::new(
                "H2",
                key,
                format!("token {} was granted to {earlier} and again to {}", hold.token, hold.owner),
            ));
        }
        for other in &hold.other_tokens {
            violations.push(Violation::new(
                "H2",
                key,
                format!("a repeat by {} gave token {other}, its grant gave {}", hold.owner, hold.token),
            ));
        }
    }
    violations.extend(falling(key, holds));
    violations
}

/// Grants whose attempt left after a grant with a higher token had arrived.
fn falling(key: &str, holds: &[Hold]) -> Vec<Violation> {
    let mut by_arrival: Vec<&Hold> = holds.iter().collect();
    by_arrival.sort_by_key(|hold| hold.granted);
    let mut by_departure: Vec<&Hold> = holds.iter().collect();
    by_departure.sort_by_key(|hold| hold.asked);
    let mut arrived = by_arrival.into_iter().peekable();
    let mut highest: Option<&Hold> = None;
    let mut violations = Vec::new();
    for hold in by_departure {
        while let Some(earlier) = arrived.next_if(|earlier| earlier.granted < hold.asked) {
            if highest.is_none_or(|highest| earlier.token > highest.token) {
                highest = Some(earlier);
            }
        }
        if let Some(earlier) = highest
            && earlier.token > hold.token
        {
            violations.push(Violation::new(
                "H2",
                key,
                format!(
                    "{} was granted token {} at {}, and {}, who asked at {}, got the lower {}",
                    earlier.owner, earlier.token, earlier.granted, hold.owner, hold.asked, hold.token
                ),
            ));
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
        let of_key = &holds::by_key(&events)["k"];
        check("k", of_key, &holds::of(of_key))
    }

    #[test]
    fn rising_tokens_and_stable_repeats_are_right() {
        let script = Script::new()
            .grant("a", 1, 2, 7, 50)
            .grant("a", 10, 11, 7, 60)
            .unlock("a", 20, 21)
            .grant("b", 30, 31, 8, 90);
        assert_eq!(run(&script), []);
    }

    #[test]
    fn a_repeat_after_the_lease_ended_may_be_a_new_grant() {
        assert_eq!(run(&Script::new().grant("a", 1, 2, 7, 50).grant("a", 80, 81, 9, 120)), []);
    }

    #[test]
    fn concurrent_grants_may_arrive_in_any_order() {
        assert_eq!(run(&Script::new().grant("a", 1, 30, 8, 20).grant("b", 2, 10, 7, 15)), []);
    }

    #[test]
    fn a_repeat_may_be_answered_after_the_release_and_not_leave_after_it() {
        let released = Script::new().grant("a", 1, 2, 7, 50).unlock("a", 10, 12);
        assert_eq!(run(&released.clone().grant("a", 9, 14, 7, 60)), []);
        assert_eq!(run(&released.grant("a", 11, 14, 7, 60)).len(), 1);
    }

    #[test]
    fn reuse_fall_and_change_are_not() {
        let reuse = Script::new().grant("a", 1, 2, 7, 50).unlock("a", 3, 4).grant("b", 10, 11, 7, 60);
        let fall = Script::new().grant("a", 1, 2, 7, 50).unlock("a", 3, 4).grant("b", 10, 11, 5, 60);
        let change = Script::new().grant("a", 1, 2, 7, 50).grant("a", 10, 11, 8, 60);
        for script in [reuse, fall, change] {
            assert_eq!(run(&script).len(), 1);
        }
    }
}
