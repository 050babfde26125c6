//! When the store did not serve, and what that means for what lies in it.

use super::event::{Event, What};

/// When the store did not serve.
pub(super) struct Outages(Vec<Outage>);

struct Outage {
    from: u64,
    until: u64,
}

impl Outages {
    pub(super) fn of(events: &[&Event]) -> Self {
        let mut outages = Vec::new();
        let mut began = None;
        let mut changes: Vec<_> =
            events.iter().filter(|event| matches!(event.what, What::Down | What::Up)).collect();
        changes.sort_by_key(|event| event.at);
        for change in changes {
            match change.what {
                What::Down => began = began.or(Some(change.at)),
                _ => outages.extend(began.take().map(|from| Outage { from, until: change.at })),
            }
        }
        outages.extend(began.map(|from| Outage { from, until: u64::MAX }));
        Self(outages)
    }

    /// Until when a record may be in the store that could be there until `until`, and stays for at most `stays` once
    /// it was written. What is there when the store goes down may get all of its time anew when that serves
    /// again: etcd and ZooKeeper do so, since nobody could prolong it meanwhile. And what was on its way to a store
    /// that was frozen is carried out then.
    pub(super) fn prolong(&self, until: u64, stays: u64) -> u64 {
        self.0.iter().fold(until, |until, outage| {
            if until < outage.from { until } else { until.max(outage.until.saturating_add(stays)) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    fn prolonged(changes: &[(u64, What)], until: u64) -> u64 {
        let script =
            changes.iter().fold(Script::new(), |script, (at, what)| script.at(*at, "", what.clone()));
        let events = script.events();
        Outages::of(&events.iter().collect::<Vec<_>>()).prolong(until, 50)
    }

    #[test]
    fn what_is_there_when_the_store_stops_has_all_of_its_time_when_it_serves_again() {
        let outage = [(100, What::Down), (140, What::Up)];
        assert_eq!([99, 100, 120, 190, 200].map(|until| prolonged(&outage, until)), [99, 190, 190, 190, 200]);
    }

    #[test]
    fn one_outage_after_another_prolongs_it_again() {
        let outages = [(180, What::Down), (220, What::Up), (100, What::Down), (140, What::Up)];
        assert_eq!([99, 130, 185].map(|until| prolonged(&outages, until)), [99, 270, 270]);
    }

    #[test]
    fn an_outage_lasts_from_the_first_that_is_heard_of_it_to_the_next_end() {
        let dropped = [(100, What::Down), (110, What::Down), (140, What::Up), (150, What::Up)];
        assert_eq!(prolonged(&dropped, 105), 190);
        assert_eq!(prolonged(&[(100, What::Up), (140, What::Down)], 150), u64::MAX, "nobody saw its end");
    }
}
