//! Locks as the store has them.

use distlock::{FencingToken, Holder, LockKey, LockRecord, Metadata, OwnerId};
use serde::Serialize;

use super::table::{columns, pairs};
use super::{Report, millis};
use crate::durations::roughly;

/// The labels that the command and the library write by themselves.
const OF_THE_PROCESS: [&str; 3] = ["host", "pid", "command"];

/// One lock.
#[derive(Debug, Serialize)]
pub(crate) struct Lock {
    key: LockKey,
    holders: Vec<HolderReport>,
    waiters: Option<u64>,
    last_token: Option<FencingToken>,
}

/// Several locks.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Locks(Vec<Lock>);

/// One holder.
#[derive(Debug, Serialize)]
pub(crate) struct HolderReport {
    owner: OwnerId,
    token: FencingToken,
    expires_in_ms: Option<u64>,
    metadata: Metadata,
    #[serde(skip)]
    expires_in: String,
}

impl From<Holder> for HolderReport {
    fn from(holder: Holder) -> Self {
        Self {
            owner: holder.owner,
            token: holder.token,
            expires_in_ms: holder.expires_in.map(millis),
            expires_in: holder.expires_in.map_or_else(unknown, roughly),
            metadata: holder.metadata,
        }
    }
}

impl HolderReport {
    /// Lines about the holder.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("holder", self.who()),
            ("labels", self.labels()),
            ("owner", self.owner.to_string()),
            ("token", self.token.to_string()),
            ("expires in", format!("{} unless renewed", self.expires_in)),
        ]
    }

    pub(super) const fn token(&self) -> FencingToken {
        self.token
    }

    /// Which process holds the lock, if it says so.
    pub(super) fn who(&self) -> String {
        self.told(|name| OF_THE_PROCESS.contains(&name))
    }

    /// What else the holder says.
    pub(super) fn labels(&self) -> String {
        self.told(|name| !OF_THE_PROCESS.contains(&name))
    }

    fn told(&self, wanted: impl Fn(&str) -> bool) -> String {
        let escaped = self.metadata.encode().split(' ');
        let parts: Vec<&str> =
            escaped.filter(|part| wanted(part.split('=').next().unwrap_or_default())).collect();
        if parts.concat().is_empty() { unknown() } else { parts.join(" ") }
    }
}

impl From<LockRecord> for Lock {
    fn from(record: LockRecord) -> Self {
        Self {
            key: record.key,
            holders: record.holders.into_iter().map(HolderReport::from).collect(),
            waiters: record.waiters,
            last_token: record.last_token,
        }
    }
}

impl From<Vec<LockRecord>> for Locks {
    fn from(records: Vec<LockRecord>) -> Self {
        Self(records.into_iter().map(Lock::from).collect())
    }
}

impl Report for Lock {
    fn text(&self) -> String {
        let mut lines = vec![("key", self.key.to_string())];
        if self.holders.is_empty() {
            lines.push(("holder", "nobody".to_owned()));
        }
        for holder in &self.holders {
            lines.extend(holder.lines());
        }
        lines.push(("waiters", count(self.waiters)));
        lines.push(("last token", self.last_token.map_or_else(unknown, |token| token.to_string())));
        pairs(lines)
    }
}

impl Report for Locks {
    fn text(&self) -> String {
        let mut rows = vec![["KEY", "TOKEN", "EXPIRES IN", "WAITERS", "HOLDER", "LABELS"].map(str::to_owned)];
        for lock in &self.0 {
            let key = || lock.key.to_string();
            if lock.holders.is_empty() {
                rows.push([key(), unknown(), unknown(), count(lock.waiters), "nobody".to_owned(), unknown()]);
            }
            rows.extend(lock.holders.iter().map(|holder| {
                let token = holder.token.to_string();
                let left = holder.expires_in.clone();
                [key(), token, left, count(lock.waiters), holder.who(), holder.labels()]
            }));
        }
        columns(&rows)
    }
}

fn count(number: Option<u64>) -> String {
    number.map_or_else(unknown, |number| number.to_string())
}

fn unknown() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn record() -> LockRecord {
        let owner = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let holder = Holder::new(owner, FencingToken::MAX)
            .expires_in(Duration::from_millis(12_345))
            .metadata(Metadata::new([("host", "a b"), ("pid", "7"), ("team", "x")]).unwrap());
        LockRecord::new(LockKey::new(*b"a\0%").unwrap()).holder(holder).waiters(2)
    }

    #[test]
    fn json_has_the_documented_fields() {
        assert_eq!(
            serde_json::to_string(&Locks::from(vec![record()])).unwrap(),
            r#"[{"key":"a%00%25","holders":[{"owner":"000102030405060708090a0b0c0d0e0f","token":"9223372036854775807","expires_in_ms":12345,"metadata":{"host":"a b","pid":"7","team":"x"}}],"waiters":2,"last_token":"9223372036854775807"}]"#
        );
    }

    #[test]
    fn text_has_a_row_for_each_holder() {
        let text = Locks::from(vec![record(), LockRecord::new(LockKey::new("b").unwrap())]).text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("a%00%25  9223372036854775807  12s"), "{text}");
        assert!(lines[1].ends_with("2        host=a%20b pid=7  team=x"), "{text}");
        assert!(lines[2].ends_with("nobody            -"), "{text}");
    }
}
