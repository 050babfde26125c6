//! Waiters' marks: who waits for a lock, in which order.

use distlock_core::{Claim, Result};

use crate::sqlite::store::Store;

/// A mark lives for as long as the holder has left, within these bounds, and a second more. A
/// waiter tries again at least once a second, so a live one is never overtaken, and a dead one
/// delays the others by three seconds at most.
const LEAST: i64 = 1_000_000;
const MOST: i64 = 2_000_000_000;
const SLACK: i64 = 1_000_000_000;

/// Leaves or refreshes the mark of a claim that does not hold the lock. A mark that was left to run
/// out has lost its place.
const JOIN: &str = "INSERT INTO distlock_claims (key, owner, seq, deadline, epoch)
 SELECT ?1, ?2, coalesce((SELECT max(c.seq) FROM distlock_claims c WHERE c.key = ?1), 0) + 1,
   ?3 + ?7 + max(?5, min(?6, coalesce(
     (SELECT l.deadline - ?3 FROM distlock_locks l WHERE l.key = ?1 AND l.epoch = ?4), ?6))), ?4
  WHERE NOT EXISTS (SELECT 1 FROM distlock_locks l WHERE l.key = ?1 AND l.owner = ?2)
 ON CONFLICT (key, owner) DO UPDATE SET
   seq = CASE WHEN epoch = excluded.epoch AND deadline > ?3 THEN seq ELSE excluded.seq END,
   deadline = excluded.deadline, epoch = excluded.epoch";

/// Puts `claim` into the queue, or keeps it there. False if it holds the lock.
pub(super) async fn join(store: &Store, claim: &Claim) -> Result<bool> {
    let answer = store
        .write(|moment| {
            sqlx::query(JOIN)
                .bind(claim.key.as_bytes())
                .bind(claim.owner.as_bytes().as_slice())
                .bind(moment.nanos())
                .bind(store.machine.epoch())
                .bind(LEAST)
                .bind(MOST)
                .bind(SLACK)
        })
        .await?;
    Ok(answer.changed > 0)
}
