//! A lock's row, read and checked.

use std::time::Duration;

use distlock_core::{
    Busy, Effect, Error, ErrorKind, FencingToken, Holder, LockKey, LockRecord, Metadata, OwnerId, Result,
};

use crate::server::Row;

/// A lock's row.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The highest token granted so far.
    pub(super) token: FencingToken,
    /// Whoever holds the lock now.
    pub(super) hold: Option<Hold>,
    /// Who holds it or, when its time is over, held it.
    pub(super) owner: Option<OwnerId>,
    /// The hold ends later than its own ttl allows: the server's clock was set back.
    pub(super) is_too_far: bool,
}

/// A hold that is not over.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    /// `None` if several hold it, in a mode that this version does not know.
    pub(super) owner: Option<OwnerId>,
    pub(super) left: Duration,
    pub(super) metadata: Metadata,
}

impl Record {
    /// Reads token, owner, time left, ttl and metadata, which stand behind one other column.
    pub(super) fn read(row: &Row) -> Result<Self> {
        let token = row.int(1)?;
        let Ok(token) = FencingToken::try_from(token) else {
            return damaged("its token is not above 0");
        };
        if token == FencingToken::MAX {
            return damaged("no token can follow its own");
        }
        let owner = match row.maybe_bytes(2)? {
            None => None,
            Some(bytes) => match OwnerId::from_bytes(bytes) {
                Some(owner) => Some(owner),
                None => return damaged("its owner is not 16 bytes long"),
            },
        };
        let (left, ttl) = match (row.maybe_int(3)?, row.maybe_int(4)?) {
            (None, _) => (0, 0),
            (Some(left), Some(ttl)) if ttl > 0 => (left, ttl),
            _ => return damaged("its ttl is not above 0"),
        };
        let hold = (left > 0)
            .then(|| -> Result<Hold> {
                let metadata = Metadata::decode(row.text(5)?);
                Ok(Hold { owner, left: micros(left.min(ttl)), metadata })
            })
            .transpose()?;
        Ok(Self { token, hold, owner, is_too_far: left > ttl })
    }

    pub(super) fn is_held_by(&self, owner: OwnerId) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.owner == Some(owner))
    }

    /// The one holder, if there is one.
    pub(super) fn holder(&self) -> Option<Holder> {
        let hold = self.hold.as_ref()?;
        let holder = Holder::new(hold.owner?, self.token);
        Some(holder.expires_in(hold.left).metadata(hold.metadata.clone()))
    }

    /// What a contender is told.
    pub(super) fn busy(&self) -> Busy {
        match (self.holder(), &self.hold) {
            (Some(holder), Some(hold)) => Busy::by(holder, hold.left),
            (None, Some(hold)) => {
                let mut busy = Busy::unknown();
                busy.free_in = Some(hold.left);
                busy
            }
            _ => Busy::unknown(),
        }
    }

    /// What an operator is shown.
    pub(super) fn shown(&self, key: LockKey) -> LockRecord {
        let record = LockRecord::new(key);
        let record = match self.holder() {
            Some(holder) => record.holder(holder),
            None => record,
        };
        record.last_token(self.token)
    }
}

/// A number of microseconds.
pub(super) fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}

/// A ttl as its column has it; the longest that is granted fits by far.
pub(super) fn ttl_micros(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX)
}

fn damaged<T>(what: &str) -> Result<T> {
    Err(Error::new(
        ErrorKind::Corrupt,
        format!("the lock's row is damaged: {what}; delete the row, or take the lock away with force-unlock"),
    )
    .with_effect(Effect::None))
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;
    use crate::server::Cell;

    fn cell() -> impl Strategy<Value = Cell> {
        prop_oneof![
            Just(Cell::Null),
            any::<i64>().prop_map(Cell::Int),
            (-2_i64..5).prop_map(Cell::Int),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(Cell::Bytes),
            any::<[u8; 16]>().prop_map(|owner| Cell::Bytes(owner.to_vec())),
            any::<String>().prop_map(Cell::Text),
        ]
    }

    proptest! {
        #[test]
        fn a_row_of_any_content_is_read_or_refused(cells in prop::collection::vec(cell(), 0..8)) {
            if let Ok(record) = Record::read(&Row(cells)) {
                let _ = (record.busy(), record.shown(LockKey::new("k").unwrap()));
            }
        }

        #[test]
        fn nobody_holds_a_lock_for_longer_than_its_ttl(
            token in 1_i64..i64::MAX,
            owner in any::<[u8; 16]>(),
            left in any::<i64>(),
            ttl in 1_i64..,
            labels in any::<String>(),
        ) {
            let cells = [Cell::Null, Cell::Int(token), Cell::Bytes(owner.to_vec()), Cell::Int(left), Cell::Int(ttl)];
            let row = Row(cells.into_iter().chain([Cell::Text(labels.clone())]).collect());
            let record = Record::read(&row).unwrap();
            prop_assert_eq!(record.hold.is_some(), left > 0);
            prop_assert_eq!(record.is_too_far, left > ttl);
            if let Some(holder) = record.holder() {
                prop_assert_eq!((holder.owner.as_bytes(), holder.token.get_i64()), (&owner, token));
                prop_assert_eq!(holder.expires_in, Some(micros(left.min(ttl))));
                prop_assert_eq!(holder.metadata.encode(), labels);
            }
        }
    }
}
