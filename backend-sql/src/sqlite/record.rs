//! A lock's record, read and checked.

use std::time::Duration;

use distlock_core::{Error, ErrorKind, FencingToken, Holder, LockKey, Metadata, OwnerId, Result};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::machine::{Machine, Moment};

/// The columns that [`Record::read`] takes, in its order.
macro_rules! record_columns {
    () => {
        "l.token, l.owner, l.deadline, l.epoch, l.ttl, l.metadata"
    };
}
pub(super) use record_columns;

/// A lock's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The highest token granted so far.
    pub(super) token: FencingToken,
    pub(super) hold: Option<Hold>,
}

/// A hold, whether its time has run out or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) owner: OwnerId,
    pub(super) deadline: i64,
    pub(super) epoch: String,
    pub(super) ttl: i64,
    pub(super) metadata: Metadata,
}

/// How a hold's deadline stands to the present moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Comparable, and to come.
    Live { left: Duration },
    /// Comparable, and past.
    Over,
    /// Of another epoch, or further away than the hold's own ttl reaches: it has to be stamped anew
    /// before it can run out.
    Unreadable,
}

impl Record {
    /// Reads the columns of [`record_columns`] from `at` on; `None` if the lock has no record.
    pub(super) fn read(row: &SqliteRow, at: usize, ceiling: i64) -> Result<Option<Self>> {
        let Some(token) = column::<Option<i64>>(row, at)? else { return Ok(None) };
        let owner = column::<Option<Vec<u8>>>(row, at + 1)?;
        let deadline = column::<Option<i64>>(row, at + 2)?;
        let epoch = column::<Option<String>>(row, at + 3)?;
        let ttl = column::<Option<i64>>(row, at + 4)?;
        let metadata = column::<Option<String>>(row, at + 5)?;
        if token > ceiling {
            return damaged("its token is above every one that was granted");
        }
        let Ok(token) = FencingToken::try_from(token) else {
            return damaged("its token is not above 0");
        };
        let hold = match (owner, deadline, epoch, ttl) {
            (None, None, None, None) => None,
            (Some(owner), Some(deadline), Some(epoch), Some(ttl)) if deadline > 0 && ttl > 0 => {
                let Some(owner) = OwnerId::from_bytes(&owner) else {
                    return damaged("its owner is not 16 bytes long");
                };
                let metadata = Metadata::decode(&metadata.unwrap_or_default());
                Some(Hold { owner, deadline, epoch, ttl, metadata })
            }
            _ => return damaged("owner, deadline and ttl do not fit together"),
        };
        Ok(Some(Self { token, hold }))
    }
}

impl Hold {
    pub(super) fn standing(&self, moment: Moment, machine: &Machine) -> Standing {
        let left = self.deadline.saturating_sub(moment.nanos());
        if *self.epoch != *machine.epoch() || left > self.ttl {
            Standing::Unreadable
        } else if left > 0 {
            Standing::Live { left: nanos(left) }
        } else {
            Standing::Over
        }
    }

    /// The holder as others see it, or `None` once its time has run out.
    pub(super) fn holder(&self, token: FencingToken, moment: Moment, machine: &Machine) -> Option<Holder> {
        let left = match self.standing(moment, machine) {
            Standing::Live { left } => left,
            Standing::Unreadable => nanos(self.ttl),
            Standing::Over => return None,
        };
        Some(Holder::new(self.owner, token).expires_in(left).metadata(self.metadata.clone()))
    }
}

/// A column's value; one of another type than ours means damage.
pub(super) fn column<'r, T>(row: &'r SqliteRow, at: usize) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(at).or_else(|_| damaged("a value in it is of the wrong type"))
}

/// A key column's value.
pub(super) fn key_column(row: &SqliteRow, at: usize) -> Result<LockKey> {
    LockKey::new(column::<Vec<u8>>(row, at)?).or_else(|_| damaged("its key is empty or too long"))
}

pub(super) fn nanos(count: i64) -> Duration {
    Duration::from_nanos(u64::try_from(count).unwrap_or(0))
}

fn damaged<T>(what: &str) -> Result<T> {
    Err(Error::new(
        ErrorKind::Corrupt,
        format!("the lock's record is damaged: {what}; force-unlock it, which replaces the record"),
    )
    .with_effect(distlock_core::Effect::None))
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;
    use sqlx::{Connection as _, Executor as _, SqliteConnection};

    use super::*;

    /// A value as SQL text, of any of SQLite's types.
    fn value() -> impl Strategy<Value = String> {
        let bytes = |bytes: Vec<u8>| {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{digits}'")
        };
        prop_oneof![
            Just("NULL".to_owned()),
            (i64::MIN + 1..).prop_map(|number| number.to_string()),
            (-2_i64..5).prop_map(|number| number.to_string()),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(bytes),
            any::<[u8; 16]>().prop_map(move |owner| bytes(owner.to_vec())),
            "[a-z' ]{0,9}".prop_map(|text| format!("'{}'", text.replace('\'', "''"))),
            (0_i64..99).prop_map(|number| format!("{number}.5")),
        ]
    }

    proptest! {
        #[test]
        fn a_row_of_any_content_is_read_or_refused(values in prop::collection::vec(value(), 6)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let row = runtime.block_on(async {
                let mut database = SqliteConnection::connect("sqlite::memory:").await.unwrap();
                database.fetch_one(sqlx::AssertSqlSafe(format!("SELECT {}", values.join(", ")))).await.unwrap()
            });
            if let Ok(Some(record)) = Record::read(&row, 0, i64::MAX - 1) {
                let machine = Machine::this().unwrap();
                let moment = machine.moment();
                let shown = record.hold.and_then(|hold| Some((hold.holder(record.token, moment, &machine)?, hold.ttl)));
                if let Some((holder, ttl)) = shown {
                    prop_assert!(holder.expires_in <= Some(nanos(ttl)));
                }
            }
        }
    }
}
