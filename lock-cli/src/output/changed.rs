//! What changed between two looks at the locks of a store.

use std::collections::BTreeMap;
use std::time::SystemTime;

use distlock::{Holder, LockKey, LockRecord};
use serde::Serialize;

use super::Report;
use super::lock::HolderReport;

/// One change, as a line.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    at: String,
    change: What,
    key: LockKey,
    holder: Option<HolderReport>,
    waiters: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum What {
    /// It was held at the first look.
    Held,
    /// It was granted since the last look.
    Granted,
    /// It is not held any more: given back, run out or taken away.
    Freed,
    /// The number of waiters changed.
    Waiters,
}

/// What changed from `known`, the last look, if there was one, to `seen`. Renewals are no change.
pub(crate) fn changes(known: Option<&[LockRecord]>, seen: &[LockRecord]) -> Vec<Change> {
    let old: BTreeMap<_, _> = known.unwrap_or_default().iter().map(|record| (&record.key, record)).collect();
    let new: BTreeMap<_, _> = seen.iter().map(|record| (&record.key, record)).collect();
    let keys: BTreeMap<_, ()> = old.keys().chain(new.keys()).map(|key| (*key, ())).collect();
    let comes = if known.is_some() { What::Granted } else { What::Held };
    let at = now();
    let mut found = Vec::new();
    for key in keys.into_keys() {
        let (before, after) = (old.get(key), new.get(key));
        let waiters = after.map_or(Some(0), |record| record.waiters);
        let (went, came) = (missing(before, after), missing(after, before));
        let has_turned = !went.is_empty() || !came.is_empty();
        let mut add = |change, holder: Option<Holder>| {
            let holder = holder.map(HolderReport::from);
            found.push(Change { at: at.clone(), change, key: key.clone(), holder, waiters });
        };
        for holder in went {
            add(What::Freed, Some(holder));
        }
        for holder in came {
            add(comes, Some(holder));
        }
        let waited = before.map_or(Some(0), |record| record.waiters);
        if !has_turned && waiters != waited {
            add(What::Waiters, after.and_then(|record| record.holders.first().cloned()));
        }
    }
    found
}

/// The holders of `one` that `other` does not have.
fn missing(one: Option<&&LockRecord>, other: Option<&&LockRecord>) -> Vec<Holder> {
    let stays = |holder: &Holder| {
        other.is_some_and(|other| other.holders.iter().any(|held| held.owner == holder.owner))
    };
    one.map(|one| one.holders.iter().filter(|holder| !stays(holder)).cloned().collect()).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "shown to people, and used for nothing else")]
fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

impl Report for Change {
    fn text(&self) -> String {
        let what = match self.change {
            What::Held => "held",
            What::Granted => "granted",
            What::Freed => "freed",
            What::Waiters => "waiters",
        };
        let waiters = self.waiters.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let mut line = format!("{}  {what:7}  {}  waiters={waiters}", self.at, self.key);
        if let Some(holder) = &self.holder {
            line.push_str(&format!("  token={}  {}", holder.token(), holder.who()));
            let labels = holder.labels();
            if labels != "-" {
                line.push_str(&format!("  {labels}"));
            }
        }
        line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use distlock::{FencingToken, OwnerId};

    fn record(key: &str, owner: Option<u8>, waiters: u64) -> LockRecord {
        let record = LockRecord::new(LockKey::new(key).unwrap()).waiters(waiters);
        match owner {
            Some(owner) => {
                let id = OwnerId::from_bytes(&[owner; 16]).unwrap();
                record.holder(Holder::new(id, FencingToken::new(u64::from(owner)).unwrap()))
            }
            None => record,
        }
    }

    fn told(known: Option<&[LockRecord]>, seen: &[LockRecord]) -> Vec<(What, String, Option<u64>)> {
        let found = changes(known, seen);
        found.into_iter().map(|change| (change.change, change.key.to_string(), change.waiters)).collect()
    }

    #[test]
    fn the_first_look_tells_what_is_held() {
        let seen = [record("a", Some(1), 0), record("b", None, 0)];
        assert_eq!(told(None, &seen), [(What::Held, "a".into(), Some(0))]);
    }

    #[test]
    fn a_turn_is_told_as_an_end_and_a_grant() {
        let (known, seen) = ([record("a", Some(1), 1)], [record("a", Some(2), 0)]);
        let found = told(Some(&known), &seen);
        assert_eq!(found, [(What::Freed, "a".into(), Some(0)), (What::Granted, "a".into(), Some(0))]);
        assert_eq!(told(Some(&seen), &seen), [], "a renewal is no change");
    }

    #[test]
    fn who_waits_is_counted_and_what_vanishes_is_freed() {
        let (known, seen) = ([record("a", Some(1), 0)], [record("a", Some(1), 2)]);
        assert_eq!(told(Some(&known), &seen), [(What::Waiters, "a".into(), Some(2))]);
        assert_eq!(told(Some(&seen), &[]), [(What::Freed, "a".into(), Some(0))]);
    }

    #[test]
    fn json_has_the_documented_fields() {
        let found = changes(None, &[record("a", Some(1), 0)]);
        let json = serde_json::to_value(&found[0]).unwrap();
        let names: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["at", "change", "holder", "key", "waiters"]);
        assert_eq!((&json["change"], &json["holder"]["token"]), (&"held".into(), &"1".into()));
    }
}
