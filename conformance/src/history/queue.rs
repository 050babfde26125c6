//! H5, on stores that declare it: waiters are served in the order in which they queued.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::event::{Event, What};

/// One stay in the store's queue.
struct Stay<'a> {
    owner: &'a str,
    /// When the first attempt left. It may have queued although its answer was lost.
    asked: u64,
    /// When the store first answered that the claim is in the queue.
    queued: u64,
    /// When the last attempt left that the store answered. One that failed may not have refreshed
    /// the place.
    refreshed: u64,
    ttl: u64,
    /// Its place may have lapsed, because it was not refreshed in time.
    lapsed: bool,
    token: Option<u64>,
}

impl Stay<'_> {
    /// The store answered at `answered` an attempt that left at `asked`.
    fn refresh(&mut self, answered: u64, asked: u64) {
        self.lapsed |= answered.saturating_sub(self.refreshed) > self.ttl / 2;
        self.refreshed = asked;
    }
}

/// Pairs of waiters of which the later one was served first. Only stays whose enqueueing the store
/// had acknowledged before the other one asked are compared.
pub(crate) fn inversions(key: &str, events: &[&Event]) -> Vec<Violation> {
    let mut served: Vec<Stay<'_>> = stays(events).into_iter().filter(|stay| stay.token.is_some()).collect();
    served.sort_by_key(|stay| stay.token);
    let mut violations = Vec::new();
    // When the one asked that asked last of those that were served before.
    let mut latest = 0;
    for (at, early) in served.iter().enumerate() {
        let passed = !early.lapsed && latest > early.queued;
        latest = early.asked.max(latest);
        // Only where somebody was passed there is reason to look who passed.
        let before = if passed { &served[..at] } else { &[] };
        for late in before.iter().filter(|late| late.asked > early.queued && late.token < early.token) {
            violations.push(Violation::new(
                "H5",
                key,
                format!(
                    "{} was in the queue at {}, {} asked only at {}, and was served first",
                    early.owner, early.queued, late.owner, late.asked
                ),
            ));
        }
    }
    violations
}

fn stays<'a>(events: &[&'a Event]) -> Vec<Stay<'a>> {
    let mut asks: BTreeMap<u64, (u64, bool, u64)> = BTreeMap::new();
    let mut first_asks: BTreeMap<&str, u64> = BTreeMap::new();
    let mut waiting: BTreeMap<&str, Stay<'a>> = BTreeMap::new();
    let mut over: Vec<Stay<'a>> = Vec::new();
    let mut grants: BTreeSet<(&str, u64)> = BTreeSet::new();
    for event in events {
        match event.what {
            What::Ask { op, queue, handed, ttl } => {
                asks.insert(op, (event.at, queue && !handed, ttl));
                first_asks.entry(&event.owner).or_insert(event.at);
            }
            What::Busy { op } => {
                let Some(&(asked, true, ttl)) = asks.get(&op) else { continue };
                let stay = waiting.entry(&event.owner).or_insert(Stay {
                    owner: &event.owner,
                    asked: first_asks.get(event.owner.as_str()).copied().unwrap_or(asked),
                    queued: event.at,
                    refreshed: asked,
                    ttl,
                    lapsed: false,
                    token: None,
                });
                stay.refresh(event.at, asked);
            }
            What::Granted { op, token, .. } => {
                if grants.contains(&(event.owner.as_str(), token)) {
                    // A repeat of an attempt that was served before.
                    continue;
                }
                if let Some(mut stay) = waiting.remove(event.owner.as_str()) {
                    stay.refresh(event.at, event.at);
                    stay.token = Some(token);
                    grants.insert((&event.owner, token));
                    over.push(stay);
                } else if let Some(&(asked, true, ttl)) = asks.get(&op) {
                    // Served at once: it never waited, but it must not have passed anybody.
                    grants.insert((&event.owner, token));
                    over.push(Stay {
                        owner: &event.owner,
                        asked: first_asks.get(event.owner.as_str()).copied().unwrap_or(asked),
                        queued: u64::MAX,
                        refreshed: asked,
                        ttl,
                        lapsed: false,
                        token: Some(token),
                    });
                }
            }
            What::Unlock { .. } => {
                first_asks.remove(event.owner.as_str());
                waiting.remove(event.owner.as_str());
            }
            _ => {}
        }
    }
    over
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    fn run(script: &Script) -> usize {
        let events = script.events();
        inversions("k", &events.iter().collect::<Vec<_>>()).len()
    }

    fn queued() -> Script {
        Script::new().grant("h", 1, 2, 1, 50).busy("a", 3, 4, true).busy("b", 5, 6, true).unlock("h", 7, 8)
    }

    #[test]
    fn serving_in_order_is_right() {
        assert_eq!(run(&queued().grant("a", 9, 10, 2, 60).unlock("a", 11, 12).grant("b", 13, 14, 3, 70)), 0);
    }

    #[test]
    fn who_gave_up_or_lapsed_is_not_passed() {
        assert_eq!(run(&queued().unlock("a", 8, 9).grant("b", 13, 14, 2, 70).grant("a", 15, 16, 3, 80)), 0);
        assert_eq!(
            run(&queued().grant("b", 13, 14, 2, 70).unlock("b", 20, 21).grant("a", 90, 91, 3, 140)),
            0
        );
    }

    #[test]
    fn an_attempt_without_an_answer_refreshes_nothing() {
        let failing = queued()
            .at(20, "a", What::Ask { op: 90, queue: true, handed: false, ttl: super::super::script::TTL })
            .at(21, "a", What::AskFailed { op: 90, unknown: true })
            .grant("b", 31, 32, 2, 70)
            .grant("a", 33, 34, 3, 80);
        assert_eq!(run(&failing), 0);
    }

    #[test]
    fn an_attempt_without_an_answer_may_have_queued() {
        let early = Script::new()
            .grant("h", 1, 2, 1, 50)
            .at(3, "a", What::Ask { op: 90, queue: true, handed: false, ttl: super::super::script::TTL })
            .busy("b", 5, 6, true)
            .at(7, "a", What::AskFailed { op: 90, unknown: true })
            .unlock("h", 8, 9)
            .ask_in_queue("a", 10, 11, 2)
            .grant("b", 14, 15, 3, 70);
        assert_eq!(run(&early), 0);
    }

    #[test]
    fn a_repeat_of_the_holder_s_attempt_passes_nobody() {
        let repeat = Script::new()
            .ask_in_queue("h", 1, 2, 1)
            .busy("a", 3, 4, true)
            .ask_in_queue("h", 10, 11, 1)
            .unlock("h", 12, 13)
            .grant("a", 14, 15, 2, 70);
        assert_eq!(run(&repeat), 0);
    }

    #[test]
    fn passing_a_waiter_is_not() {
        assert_eq!(run(&queued().grant("b", 9, 10, 2, 60).unlock("b", 11, 12).grant("a", 13, 14, 3, 70)), 1);
    }
}
