//! H6: no guard says valid after its validity, and each loss is announced by then.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Violation;
use super::ends::{self, End};
use super::event::{Event, What, nanos};

/// How long an announcement may take on an idle machine. The measured scheduling delay comes on top.
const PROMPT: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Watched {
    /// The process in which somebody waits for the loss.
    process: Option<u32>,
    until: u64,
    ended: bool,
}

pub(crate) fn check(key: &str, events: &[&Event]) -> Vec<Violation> {
    let mut guards: BTreeMap<&str, Watched> = BTreeMap::new();
    let ends = ends::of(events);
    let mut violations = Vec::new();
    for event in events {
        let guard = guards.entry(&event.owner).or_default();
        match event.what {
            What::Granted { valid_until: until, .. }
            | What::Renewed { valid_until: until, .. }
            | What::Valid { until } => guard.until = guard.until.max(until),
            What::Checked { valid, until } => {
                guard.until = guard.until.max(until);
                if valid && event.at > until {
                    let late = event.at - until;
                    let text =
                        format!("{} said valid at {}, {late} ns after its validity", event.owner, event.at);
                    violations.push(Violation::new("H6", key, text));
                }
            }
            What::Watching => {
                guard.process = Some(event.process);
                guard.ended = false;
            }
            What::Lost { until } if !guard.ended => {
                guard.ended = true;
                if let Some(end) = ends.get(&event.process)
                    && event.at > due(until, end)
                {
                    let (late, allowed) = (event.at - until, due(0, end));
                    let text = format!(
                        "the loss of {} was announced {late} ns after its validity; {allowed} are allowed",
                        event.owner
                    );
                    violations.push(Violation::new("H6", key, text));
                }
            }
            What::Unwatched => {
                if let Some(end) = ends.get(&event.process)
                    && !guard.ended
                    && event.at > due(guard.until, end)
                {
                    violations.push(silent(key, &event.owner, guard.until, event.at));
                }
                guard.ended = true;
            }
            What::Unlock { .. } => guard.ended = true,
            _ => {}
        }
    }
    for (owner, guard) in guards {
        if let Some(end) = guard.process.and_then(|process| ends.get(&process))
            && !guard.ended
            && end.at > due(guard.until, end)
        {
            violations.push(silent(key, owner, guard.until, end.at));
        }
    }
    violations
}

fn silent(key: &str, owner: &str, until: u64, over: u64) -> Violation {
    let text = format!(
        "the loss of {owner} was never announced; its validity ended at {until}, and it was watched until {over}"
    );
    Violation::new("H6", key, text)
}

/// Until when a loss must have been announced whose validity ended at `until`.
fn due(until: u64, end: &End) -> u64 {
    until.saturating_add(nanos(PROMPT)).saturating_add(end.delay)
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    const MS: u64 = 1_000_000;

    fn run(script: &Script) -> Vec<Violation> {
        let events = script.events();
        check("k", &events.iter().collect::<Vec<_>>())
    }

    fn held() -> Script {
        Script::new().grant("a", 1, 2, 1, 100 * MS).at(3, "a", What::Watching)
    }

    #[test]
    fn an_announcement_in_time_is_right() {
        let script = held()
            .at(90 * MS, "a", What::Checked { valid: true, until: 100 * MS })
            .at(101 * MS, "a", What::Checked { valid: false, until: 100 * MS })
            .at(160 * MS, "a", What::Lost { until: 100 * MS })
            .at(900 * MS, "", What::End { delay: 10 * MS });
        assert_eq!(run(&script), []);
    }

    #[test]
    fn a_released_guard_owes_no_announcement() {
        assert_eq!(run(&held().unlock("a", 50 * MS, 51 * MS).at(900 * MS, "", What::End { delay: 0 })), []);
    }

    #[test]
    fn who_left_in_time_is_owed_none_and_who_left_too_late_was_owed_one() {
        let left = |at| held().at(at, "a", What::Unwatched).at(900 * MS, "", What::End { delay: 0 });
        assert_eq!(run(&left(140 * MS)), []);
        assert_eq!(run(&left(151 * MS)).len(), 1);
    }

    #[test]
    fn a_killed_process_owes_no_announcement() {
        assert_eq!(run(&held()), []);
    }

    #[test]
    fn late_missing_and_false_are_not() {
        let late = held().at(161 * MS, "a", What::Lost { until: 100 * MS }).at(
            900 * MS,
            "",
            What::End { delay: 10 * MS },
        );
        let missing = held().at(900 * MS, "", What::End { delay: 0 });
        let false_valid = held().at(101 * MS, "a", What::Checked { valid: true, until: 100 * MS });
        for script in [late, missing, false_valid] {
            assert_eq!(run(&script).len(), 1);
        }
    }
}
