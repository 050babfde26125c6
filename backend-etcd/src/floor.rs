//! The lowest token that grants may have, for the day when the store is restored from a backup.

use std::sync::{Mutex, PoisonError};

use distlock_core::{Effect, Error, ErrorKind, FencingToken, Result};
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};

use crate::link::Repeat;
use crate::queue::{Entry, get};
use crate::record::damaged;
use crate::store::Store;

/// A revision counts one for each write of the whole store, so there is room for all it will ever make.
const MOST: u64 = 1 << 62;

/// The token floor as this client knows it. Every record is written on the condition that it still is.
#[derive(Debug, Default)]
pub(crate) struct Floor(Mutex<Seen>);

/// What was seen of the floor: its value, and when it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) value: u64,
    modified: i64,
}

impl Seen {
    /// The condition that nobody has written it since.
    pub(crate) fn is_unchanged(self, store: &Store) -> Compare {
        Compare::mod_revision(store.names.floor(), CompareOp::Equal, self.modified)
    }
}

impl Floor {
    pub(crate) fn seen(&self) -> Seen {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the store has.
    pub(crate) async fn read(&self, store: &Store) -> Result<()> {
        let look = Txn::new().and_then([get(store.names.floor())]);
        let mut answer = store.txn(Repeat::Freely, &look).await?;
        self.note(answer.ranges.pop().and_then(|mut found| found.pop())).map(drop)
    }

    /// Notes what the store has.
    pub(crate) fn note(&self, entry: Option<Entry>) -> Result<Seen> {
        let now = match entry {
            Some(entry) => {
                let text = std::str::from_utf8(&entry.value).ok();
                let value = text.and_then(|text| text.parse().ok()).filter(|value| *value <= MOST);
                Seen { value: value.ok_or_else(damaged)?, modified: entry.modified }
            }
            None => Seen::default(),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(now)
    }
}

/// Raises the floor. Whoever waits with a record from before writes it anew when its turn comes.
pub(crate) async fn raise(store: &Store, floor: FencingToken) -> Result<()> {
    if floor.get() > MOST {
        return Err(Error::new(
            ErrorKind::InvalidOptions,
            format!("a token floor of {floor} leaves no room for tokens above it; the most is {MOST}"),
        )
        .with_effect(Effect::None));
    }
    loop {
        let seen = store.floor.seen();
        let name = store.names.floor();
        let is_higher = floor.get() > seen.value;
        let write = TxnOp::put(name.clone(), floor.to_string(), None::<PutOptions>);
        let then = if is_higher { vec![write] } else { Vec::new() };
        let txn = Txn::new().when([seen.is_unchanged(store)]).and_then(then).or_else([get(name)]);
        let mut answer = store.txn(Repeat::Freely, &txn).await?;
        if answer.succeeded {
            return Ok(());
        }
        store.floor.note(answer.ranges.pop().and_then(|mut found| found.pop()))?;
    }
}
