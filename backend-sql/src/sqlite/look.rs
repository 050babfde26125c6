//! How a claim stands to its lock.

use std::time::Duration;

use distlock_core::{Claim, Error, ErrorKind, OwnerId, Result};

use super::machine::Moment;
use super::record::{Hold, Record, Standing, column, nanos, record_columns};
use super::store::Store;

/// Whether somebody else comes first: a live waiter ahead in the queue, or a holder of a shared
/// mode, whose deadline under another epoch does not count as past. Expects now and epoch as the
/// third and the fourth parameter; key and owner are the first two, or what is named.
macro_rules! in_front {
    () => {
        in_front!("?1", "?2")
    };
    ($key:literal, $owner:literal) => {
        concat!(
            "c.key = ",
            $key,
            " AND c.owner <> ",
            $owner,
            "
   AND (c.token IS NOT NULL OR c.seq < coalesce(
     (SELECT me.seq FROM distlock_claims me WHERE me.key = ",
            $key,
            " AND me.owner = ",
            $owner,
            " AND me.epoch = ?4),
     9223372036854775807))
   AND ((c.epoch = ?4 AND c.deadline > ?3) OR (c.epoch <> ?4 AND c.token IS NOT NULL))"
        )
    };
}
pub(super) use in_front;

const LOOK: &str = concat!(
    "SELECT m.token_floor, m.token_ceiling,
   (SELECT CASE WHEN c.epoch = ?4 THEN c.deadline - ?3 ELSE c.ttl END
      FROM distlock_claims c WHERE ",
    in_front!(),
    " ORDER BY c.seq LIMIT 1), ",
    record_columns!(),
    " FROM distlock_meta m LEFT JOIN distlock_locks l ON l.key = ?1 WHERE m.id = 1"
);

/// What a claim sees of its lock at one moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) moment: Moment,
    pub(super) record: Option<Record>,
    /// How long somebody else comes first, if somebody does while nobody holds the lock.
    pub(super) behind: Option<Duration>,
    /// The token that the next grant needs at least.
    pub(super) next_token: i64,
    /// The highest token that may be granted.
    pub(super) ceiling: i64,
}

impl View {
    /// The hold whose time is not known to be over.
    pub(super) fn hold(&self, store: &Store) -> Option<(&Hold, Standing)> {
        let hold = self.record.as_ref()?.hold.as_ref()?;
        match hold.standing(self.moment, &store.machine) {
            Standing::Over => None,
            standing => Some((hold, standing)),
        }
    }

    /// Whether `owner` holds the lock.
    pub(super) fn is_held_by(&self, owner: OwnerId, store: &Store) -> bool {
        self.hold(store).is_some_and(|(hold, _)| hold.owner == owner)
    }
}

/// Looks at the lock of `claim`, without changing anything.
pub(super) async fn look(store: &Store, claim: &Claim) -> Result<View> {
    let answer = store
        .read(|moment| {
            sqlx::query(LOOK)
                .bind(claim.key.as_bytes())
                .bind(claim.owner.as_bytes().as_slice())
                .bind(moment.nanos())
                .bind(store.machine.epoch())
        })
        .await?;
    let Some(row) = answer.rows.first() else { return Err(no_bounds()) };
    let (floor, ceiling) = (column::<i64>(row, 0)?, column::<i64>(row, 1)?);
    let behind = column::<Option<i64>>(row, 2)?.map(nanos);
    let record = Record::read(row, 3, ceiling)?;
    let last = record.as_ref().map_or(0, |record| record.token.get_i64());
    let moment = answer.sent;
    let next_token = moment.wall_micros.max(floor.saturating_add(1)).max(last.saturating_add(1));
    Ok(View { moment, record, behind, next_token, ceiling })
}

/// The error for a store whose one row of bounds is gone.
pub(super) fn no_bounds() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        "the row of distlock_meta is missing; restart one program that uses the database, which makes it anew",
    )
}
