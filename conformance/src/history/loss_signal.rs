//! H6: no guard says valid after its validity, and each loss is announced by then.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Violation;
use super::event::{Event, What, nanos};

/// How long an announcement may take on an idle machine. The measured scheduling delay comes on top.
const PROMPT: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Watched {
    watching: bool,
    until: u64,
    ended: bool,
}

pub(crate) fn check(key: &str, events: &[&Event], delay: Duration) -> Vec<Violation> {
    let allowed = nanos(PROMPT + delay);
    let mut guards: BTreeMap<&str, Watched> = BTreeMap::new();
    let mut violations = Vec::new();
    let mut end = None;
    for event in events {
        if let What::End { .. } = event.what {
            end = end.max(Some(event.at));
            continue;
        }
        let guard = guards.entry(&event.owner).or_default();
        match event.what {
            What::Granted { valid_until: until, .. }
            | What::Renewed { valid_until: until, .. }
            | What::Valid { until } => guard.until = guard.until.max(until),
            What::Checked { valid, until } => {
                guard.until = guard.until.max(until);
                if valid && event.at > until {
                    violations.push(Violation::new(
                        "H6",
                        key,
                        format!(
                            "{} said valid at {}, {} ns after its validity",
                            event.owner,
                            event.at,
                            event.at - until
                        ),
                    ));
                }
            }
            What::Watching => guard.watching = true,
            What::Lost { until } if !guard.ended => {
                guard.ended = true;
                if event.at > until.saturating_add(allowed) {
                    violations.push(Violation::new(
                        "H6",
                        key,
                        format!(
                            "the loss of {} was announced at {}, {} ns after its validity; {allowed} are allowed",
                            event.owner,
                            event.at,
                            event.at - until
                        ),
                    ));
                }
            }
            What::Unlock { .. } => guard.ended = true,
            _ => {}
        }
    }
    for (owner, guard) in guards {
        if let Some(end) = end
            && guard.watching
            && !guard.ended
            && end > guard.until.saturating_add(allowed)
        {
            violations.push(Violation::new(
                "H6",
                key,
                format!("the loss of {owner} was never announced; its validity ended at {}, the recording at {end}", guard.until),
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    const MS: u64 = 1_000_000;

    fn run(script: &Script) -> Vec<Violation> {
        let events = script.events();
        check("k", &events.iter().collect::<Vec<_>>(), Duration::from_millis(10))
    }

    fn held() -> Script {
        Script::new().grant("a", 1, 2, 1, 100 * MS).at(3, "a", What::Watching)
    }

    #[test]
    fn an_announcement_in_time_is_right() {
        let script = held()
            .at(90 * MS, "a", What::Checked { valid: true, until: 100 * MS })
            .at(101 * MS, "a", What::Checked { valid: false, until: 100 * MS })
            .at(150 * MS, "a", What::Lost { until: 100 * MS })
            .at(900 * MS, "", What::End { delay: 0 });
        assert_eq!(run(&script), []);
    }

    #[test]
    fn a_released_guard_owes_no_announcement() {
        assert_eq!(run(&held().unlock("a", 50 * MS, 51 * MS).at(900 * MS, "", What::End { delay: 0 })), []);
    }

    #[test]
    fn late_missing_and_false_are_not() {
        let late = held().at(190 * MS, "a", What::Lost { until: 100 * MS });
        let missing = held().at(900 * MS, "", What::End { delay: 0 });
        let false_valid = held().at(101 * MS, "a", What::Checked { valid: true, until: 100 * MS });
        for script in [late, missing, false_valid] {
            assert_eq!(run(&script).len(), 1);
        }
    }
}
