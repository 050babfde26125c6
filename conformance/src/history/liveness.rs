//! H5: nobody is refused a lock that nobody can hold; waits end in time; FIFO where declared.

use std::time::Duration;

use super::event::{Event, What, nanos};
use super::outages::Outages;
use super::spans::Spans;
use super::{Promises, Violation};
use super::{ends, queue};
use std::collections::BTreeMap;

/// How much longer than its patience a wait may take.
const WAIT_SLACK: Duration = Duration::from_secs(1);

/// A stretch of time during which the store may have had a record of an owner.
struct Possible<'a> {
    owner: &'a str,
    from: u64,
    until: u64,
    /// For how long it may be there once it was written.
    stays: u64,
    /// When the call that may have left the record was answered, if it was.
    answered: Option<u64>,
    /// It is a place in the queue, which a forced release leaves alone.
    queued: bool,
}

impl Possible<'_> {
    /// What had been answered when a release left was gone when that one was answered, at `at`.
    fn end(&mut self, left: u64, at: u64) {
        if self.answered.is_some_and(|answered| answered <= left) {
            (self.until, self.stays) = (self.until.min(at), 0);
        }
    }
}

pub(crate) fn check(key: &str, events: &[&Event], promises: Promises, delay: Duration) -> Vec<Violation> {
    let mut violations =
        baseless_refusals(key, events, nanos(promises.lateness + delay), nanos(promises.place));
    violations.extend(overlong_waits(key, events));
    if promises.fifo {
        violations.extend(queue::inversions(key, events));
    }
    violations
}

fn baseless_refusals(key: &str, events: &[&Event], lateness: u64, place: u64) -> Vec<Violation> {
    let possible = possible(events, lateness, place).into_iter();
    let possible = Spans::new(possible.map(|stretch| (stretch.from, stretch.until, stretch.owner)));
    let mut asked = BTreeMap::new();
    let mut violations = Vec::new();
    for event in events {
        match event.what {
            // One that was to be handed the lock is refused too if there was nothing to hand over.
            What::Ask { op, handed: false, .. } => {
                asked.insert(op, event.at);
            }
            What::Busy { op } => {
                let Some(&from) = asked.get(&op) else { continue };
                if !possible.during(from, event.at).any(|owner| *owner != event.owner) {
                    violations.push(Violation::new(
                        "H5",
                        key,
                        format!(
                            "{} was told busy between {from} and {}, when nobody can have held or awaited it",
                            event.owner, event.at
                        ),
                    ));
                }
            }
            _ => {}
        }
    }
    violations
}

fn possible<'a>(events: &[&'a Event], lateness: u64, place: u64) -> Vec<Possible<'a>> {
    let mut possible: BTreeMap<u64, Possible<'a>> = BTreeMap::new();
    let mut unlocks: BTreeMap<u64, u64> = BTreeMap::new();
    let mut queues: BTreeMap<u64, bool> = BTreeMap::new();
    let mut ttls: BTreeMap<u64, u64> = BTreeMap::new();
    let mut of_owner: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for event in events {
        match event.what {
            What::Ask { op, ttl, .. } | What::Renew { op, ttl } => {
                if let What::Ask { queue, .. } = event.what {
                    queues.insert(op, queue);
                }
                ttls.insert(op, ttl);
                // Until it is answered it may land at any time, and then be a place in the queue.
                let place = if matches!(event.what, What::Ask { queue: true, .. }) { place } else { 0 };
                let stays = ttl.saturating_add(lateness).saturating_add(place);
                let until = event.at.saturating_add(stays);
                of_owner.entry(&event.owner).or_default().push(op);
                possible.insert(
                    op,
                    Possible {
                        owner: &event.owner,
                        from: event.at,
                        until,
                        stays,
                        answered: None,
                        queued: false,
                    },
                );
            }
            What::Granted { op, ttl, .. } => {
                ttls.insert(op, ttl);
                answer(&mut possible, op, event.at, ttl.saturating_add(lateness));
            }
            What::Renewed { op, .. } => {
                let ttl = ttls.get(&op).copied().unwrap_or(0);
                answer(&mut possible, op, event.at, ttl.saturating_add(lateness));
            }
            What::RenewFailed { op } | What::AskFailed { op, unknown: true } => {
                // It may still be on its way.
                possible
                    .entry(op)
                    .and_modify(|stretch| stretch.until = event.at.saturating_add(stretch.stays));
            }
            What::Busy { op } => {
                let ttl = ttls.get(&op).copied().unwrap_or(0);
                let queued = queues.get(&op).copied().unwrap_or(false);
                possible.entry(op).and_modify(|stretch| stretch.queued = queued);
                answer(
                    &mut possible,
                    op,
                    event.at,
                    if queued { ttl.saturating_add(lateness).saturating_add(place) } else { 0 },
                );
            }
            What::AskFailed { op, unknown: false } | What::RenewLost { op } => {
                answer(&mut possible, op, event.at, 0);
            }
            What::Unlock { op, .. } | What::Force { op } => {
                unlocks.insert(op, event.at);
            }
            What::Unlocked { op, .. } => {
                let left = unlocks.get(&op).copied().unwrap_or(event.at);
                for op in of_owner.get(event.owner.as_str()).into_iter().flatten() {
                    possible.entry(*op).and_modify(|stretch| stretch.end(left, event.at));
                }
            }
            What::Forced { op } => {
                let left = unlocks.get(&op).copied().unwrap_or(event.at);
                let held = possible.values_mut().filter(|stretch| !stretch.queued);
                held.for_each(|stretch| stretch.end(left, event.at));
            }
            _ => {}
        }
    }
    let outages = Outages::of(events);
    for stretch in possible.values_mut().filter(|stretch| stretch.stays > 0) {
        stretch.until = outages.prolong(stretch.until, stretch.stays);
    }
    possible.into_values().collect()
}

fn answer(possible: &mut BTreeMap<u64, Possible<'_>>, op: u64, at: u64, stays: u64) {
    if let Some(stretch) = possible.get_mut(&op) {
        stretch.answered = Some(at);
        (stretch.until, stretch.stays) = (at.saturating_add(stays), stays);
    }
}

fn overlong_waits(key: &str, events: &[&Event]) -> Vec<Violation> {
    let ends = ends::of(events);
    let mut began = BTreeMap::new();
    let mut violations = Vec::new();
    for event in events {
        match event.what {
            What::Wait { op, patience: Some(patience) } => {
                began.insert(op, event.at.saturating_add(patience));
            }
            What::Waited { op } => {
                let slack = ends.get(&event.process).map(|end| nanos(WAIT_SLACK).saturating_add(end.delay));
                if let (Some(deadline), Some(slack)) = (began.get(&op), slack)
                    && event.at > deadline.saturating_add(slack)
                {
                    let late = event.at - deadline;
                    violations.push(Violation::new(
                        "H5",
                        key,
                        format!("a wait ended {late} ns after its deadline; {slack} are allowed"),
                    ));
                }
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::script::{Script, TTL};
    use super::*;

    const LATE: u64 = 10;

    fn refusals(script: &Script) -> usize {
        let events = script.events();
        baseless_refusals("k", &events.iter().collect::<Vec<_>>(), LATE, nanos(Duration::from_secs(5))).len()
    }

    #[test]
    fn busy_under_a_hold_is_right() {
        assert_eq!(refusals(&Script::new().grant("a", 1, 2, 1, 50).busy("b", 20, 21, false)), 0);
        let just_expired = 2 + TTL + LATE;
        assert_eq!(refusals(&Script::new().grant("a", 1, 2, 1, 50).busy("b", just_expired, 70, false)), 0);
    }

    #[test]
    fn busy_behind_a_waiter_or_an_unknown_attempt_is_right() {
        let waiter = Script::new()
            .grant("a", 1, 2, 1, 50)
            .busy("b", 3, 4, true)
            .unlock("a", 5, 6)
            .busy("c", 20, 21, false);
        assert_eq!(refusals(&waiter), 0);
        let dropped = Script::new()
            .at(1, "a", What::Ask { op: 99, queue: false, handed: false, ttl: TTL })
            .busy("b", 20, 21, false);
        assert_eq!(refusals(&dropped), 0);
    }

    #[test]
    fn busy_on_a_free_lock_is_not() {
        assert_eq!(refusals(&Script::new().busy("b", 20, 21, false)), 1);
        assert_eq!(
            refusals(&Script::new().grant("a", 1, 2, 1, 50).unlock("a", 5, 6).busy("b", 20, 21, false)),
            1
        );
        assert_eq!(refusals(&Script::new().grant("a", 1, 2, 1, 50).busy("b", 200, 201, false)), 1);
        let residue = Script::new()
            .grant("a", 1, 2, 1, 50)
            .busy("b", 3, 4, false)
            .unlock("a", 5, 6)
            .busy("c", 20, 21, false);
        assert_eq!(refusals(&residue), 1);
    }

    #[test]
    fn busy_after_an_outage_is_right_for_as_long_as_a_record_may_have_stayed() {
        let after = |script: Script, at| {
            refusals(&script.at(30, "", What::Down).at(500, "", What::Up).busy("b", at, at + 1, false))
        };
        let last = 500 + TTL + LATE;
        let held = || Script::new().grant("a", 1, 2, 1, 50);
        assert_eq!((after(held(), last), after(held(), last + 1)), (0, 1));
        assert_eq!(after(held().unlock("a", 5, 6), last), 1, "it was given back before");
        assert_eq!(after(Script::new(), last), 1);
    }

    #[test]
    fn an_attempt_that_failed_may_have_got_a_place() {
        let failed =
            |queue| {
                let script = Script::new()
                    .at(1, "a", What::Ask { op: 99, queue, handed: false, ttl: TTL })
                    .at(20, "a", What::AskFailed { op: 99, unknown: true });
                refusals(&script.busy("b", 1000, 1001, false))
            };
        assert_eq!((failed(true), failed(false)), (0, 1));
    }

    #[test]
    fn a_wait_past_its_deadline_is_not() {
        const MS: u64 = 1_000_000;
        let wait =
            |ended, killed: bool| {
                let mut script = Script::new()
                    .at(MS, "a", What::Wait { op: 1, patience: Some(100 * MS) })
                    .at(ended, "a", What::Waited { op: 1 });
                if !killed {
                    script = script.at(9000 * MS, "", What::End { delay: 20 * MS });
                }
                overlong_waits("k", &script.events().iter().collect::<Vec<_>>()).len()
            };
        let last = 1121 * MS;
        assert_eq!((wait(last, false), wait(last + 1, false)), (0, 1));
        assert_eq!(wait(last + 1, true), 0, "it may have been stopped, and could not say so");
    }
}
