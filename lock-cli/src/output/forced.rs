//! The outcome of `force-unlock`.

use distlock::{Holder, LockKey};
use serde::Serialize;

use super::Report;
use super::lock::HolderReport;
use super::table::pairs;

/// From whom a lock was taken.
#[derive(Debug, Serialize)]
pub(crate) struct Forced {
    key: LockKey,
    taken_from: Option<HolderReport>,
}

impl Forced {
    pub(crate) fn new(key: LockKey, victim: Option<Holder>) -> Self {
        Self { key, taken_from: victim.map(HolderReport::from) }
    }
}

impl Report for Forced {
    fn text(&self) -> String {
        let status = match self.taken_from {
            Some(_) => "taken away; the holder may go on until it notices, at the latest when its lease ends",
            None => "nobody held it",
        };
        let mut lines = vec![("key", self.key.to_string()), ("status", status.to_owned())];
        lines.extend(self.taken_from.iter().flat_map(HolderReport::lines));
        pairs(lines)
    }
}
