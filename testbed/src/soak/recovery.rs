//! How soon each client worked again once all was well.

use std::collections::BTreeMap;
use std::time::Duration;

use distlock_conformance::history::{Event, What};
use distlock_core::Instant;

/// One client after the last trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Which one: by the key that it alone has, or else by its number in the histories.
    pub client: String,
    /// How long after the trouble it got a lock, if it got one.
    pub took: Option<Duration>,
    /// How long that may take.
    pub limit: Duration,
}

/// The time that the end of a fault gives each client to get its next lock.
pub(super) fn limit(ttl: Duration) -> Duration {
    ttl * 2 + Duration::from_secs(5)
}

/// Of the probes that lived until they were told to end.
pub(super) fn of_probes(phase: &str, events: &[Event], healed: Instant, limit: Duration) -> Vec<Recovery> {
    let mut names: BTreeMap<u32, &str> = BTreeMap::new();
    let mut firsts: BTreeMap<u32, u64> = BTreeMap::new();
    let own = format!("{phase}/probe-");
    for event in events {
        if event.key.starts_with(&own) {
            names.insert(event.process, &event.key);
        }
        if matches!(event.what, What::Granted { .. }) && event.at >= healed.as_nanos() {
            let first = firsts.entry(event.process).or_insert(event.at);
            *first = event.at.min(*first);
        }
    }
    let lived = events.iter().filter(|event| matches!(event.what, What::End { .. }));
    lived
        .map(|event| Recovery {
            client: names
                .get(&event.process)
                .map_or_else(|| format!("{phase}: process {}", event.process), |name| (*name).to_owned()),
            took: firsts.get(&event.process).map(|first| Duration::from_nanos(first - healed.as_nanos())),
            limit,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(process: u32, at: u64, key: &str, what: What) -> Event {
        let mut event = Event::new(Instant::from_nanos(at), key, "", what);
        event.process = process;
        event
    }

    fn granted() -> What {
        What::Granted { op: 1, token: 1, ttl: 1, valid_until: 9 }
    }

    #[test]
    fn each_probe_that_lives_is_judged_by_its_first_grant_after_the_trouble() {
        let end = || What::End { delay: 0 };
        let events = [
            event(1, 40, "calm/probe-1", granted()),
            event(1, 70, "calm/one", granted()),
            event(1, 60, "calm/probe-1", granted()),
            event(1, 99, "", end()),
            event(2, 49, "calm/probe-2", granted()),
            event(2, 99, "", end()),
            // This one never was heard of.
            event(3, 99, "", end()),
            // And this one was killed.
            event(4, 55, "calm/probe-4", granted()),
        ];
        let limit = Duration::from_nanos(20);
        let found = of_probes("calm", &events, Instant::from_nanos(50), limit);
        let found: Vec<_> = found.iter().map(|one| (one.client.as_str(), one.took)).collect();
        let first = Some(Duration::from_nanos(10));
        assert_eq!(found, [("calm/probe-1", first), ("calm/probe-2", None), ("calm: process 3", None)]);
    }
}
