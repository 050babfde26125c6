//! H3: a fenced resource accepts no lower token after a higher one, and loses no update.

use std::collections::BTreeMap;

use super::Violation;
use super::event::{Event, What};

struct Accepted {
    seq: u64,
    token: u64,
    value: u64,
}

/// Checks the fenced resources of a history. Their unfenced twins are left alone.
pub(crate) fn check(events: &[Event]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (resource, writes) in accepted(events, true) {
        let mut seen: Option<Accepted> = None;
        for write in writes {
            let seq = write.seq;
            if let Some(before) = &seen {
                if write.token < before.token {
                    violations.push(Violation::new(
                        "H3",
                        resource,
                        format!(
                            "write {seq} with token {} was accepted after token {}",
                            write.token, before.token
                        ),
                    ));
                }
                // Each write adds one. A writer killed before it could record one leaves a gap.
                if write.value != before.value.saturating_add(seq - before.seq) {
                    violations.push(Violation::new(
                        "H3",
                        resource,
                        format!("write {seq} put {} over {}: an update was lost", write.value, before.value),
                    ));
                }
            }
            seen = Some(write);
        }
    }
    violations
}

/// How many updates of an unfenced resource were overwritten by a writer that had not seen them. A
/// fault that is meant to show them and shows none did not bite.
#[must_use]
pub fn lost_updates(events: &[Event], resource: &str) -> usize {
    let writes = accepted(events, false).remove(resource).unwrap_or_default();
    let lost = |pair: &&[Accepted]| {
        pair[1].seq == pair[0].seq.saturating_add(1) && pair[1].value != pair[0].value.saturating_add(1)
    };
    writes.windows(2).filter(lost).count()
}

/// The accepted writes of each resource, in the order in which they reached it.
fn accepted(events: &[Event], wanted: bool) -> BTreeMap<&str, Vec<Accepted>> {
    let mut resources: BTreeMap<&str, Vec<Accepted>> = BTreeMap::new();
    for event in events {
        if let What::Write { resource, fenced, seq, token, value, accepted: true } = &event.what
            && *fenced == wanted
        {
            resources.entry(resource.as_str()).or_default().push(Accepted {
                seq: *seq,
                token: *token,
                value: *value,
            });
        }
    }
    resources.values_mut().for_each(|writes| writes.sort_by_key(|write| write.seq));
    resources
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    fn writes(fenced: bool, writes: &[(u64, u64)]) -> Vec<Event> {
        let mut script = Script::new();
        for (seq, (token, value)) in (1_u64..).zip(writes) {
            let resource = "r".to_owned();
            let write = What::Write { resource, fenced, seq, token: *token, value: *value, accepted: true };
            script = script.at(seq, "a", write);
        }
        script.events()
    }

    #[test]
    fn rising_tokens_and_steady_counting_are_right() {
        assert_eq!(check(&writes(true, &[(1, 1), (1, 2), (5, 3)])), []);
    }

    #[test]
    fn a_stale_writer_and_a_lost_update_are_not() {
        assert_eq!(check(&writes(true, &[(5, 1), (4, 2)])).len(), 1);
        assert_eq!(check(&writes(true, &[(4, 1), (5, 1)])).len(), 1);
    }

    #[test]
    fn an_update_that_its_writer_could_not_record_is_not_lost() {
        for fenced in [true, false] {
            let mut events = writes(fenced, &[(1, 1), (2, 2), (3, 3)]);
            events.remove(1);
            assert_eq!((check(&events), lost_updates(&events, "r")), (vec![], 0));
        }
        let mut events = writes(true, &[(1, 1), (2, 2), (3, 2)]);
        events.remove(1);
        assert_eq!(check(&events).len(), 1);
    }

    #[test]
    fn the_unfenced_twin_is_counted_not_judged() {
        let events = writes(false, &[(1, 1), (2, 2), (1, 2)]);
        assert_eq!(check(&events), []);
        assert_eq!(lost_updates(&events, "r"), 1);
    }
}
