//! Giving a lock back.

use distlock_core::{Claim, LostReason, OwnerId, Release, Result};

use super::connection::{Answer, Statement};
use super::look::look;
use super::machine::Moment;
use super::record::column;
use super::store::Store;

/// Frees the lock if the claim holds it, and says whose turn is next. A trigger takes the claim's
/// mark away in the same statement.
const RELEASE: &str = "UPDATE distlock_locks
 SET owner = NULL, deadline = NULL, epoch = NULL, ttl = NULL, metadata = NULL, flips = 0
 WHERE key = ?1 AND owner = ?2 AND (epoch <> ?4 OR deadline > ?3)
 RETURNING (SELECT c.owner FROM distlock_claims c
   WHERE c.key = ?1 AND c.owner <> ?2 AND c.token IS NULL AND c.epoch = ?4 AND c.deadline > ?3
   ORDER BY c.seq LIMIT 1)";

/// Takes the claim out of the queue.
const WITHDRAW: &str = "DELETE FROM distlock_claims WHERE key = ?1 AND owner = ?2";

/// Frees a lock whose holder comes back after its time has run out.
const CLEAR: &str = "UPDATE distlock_locks
 SET owner = NULL, deadline = NULL, epoch = NULL, ttl = NULL, metadata = NULL, flips = 0
 WHERE key = ?1 AND owner = ?2 AND epoch = ?4 AND deadline <= ?3";

/// What a release did.
pub(super) struct Released {
    pub(super) release: Release,
    /// Whose turn it is, if anybody waits in the queue.
    pub(super) next: Option<OwnerId>,
}

/// Removes every trace of `claim`: one statement if it holds the lock.
pub(super) async fn unlock(store: &Store, claim: &Claim) -> Result<Released> {
    loop {
        let answer = store.write(|moment| bound(RELEASE, store, claim, moment)).await?;
        if let Some(row) = answer.rows.first() {
            let next = column::<Option<Vec<u8>>>(row, 0)?.and_then(|owner| OwnerId::from_bytes(&owner));
            return Ok(Released { release: Release::Released, next });
        }
        withdraw(store, claim).await?;
        let view = look(store, claim).await?;
        if view.is_held_by(claim.owner, store) {
            // An attempt of this claim that was on its way has landed meanwhile.
            continue;
        }
        let other = view.hold(store).is_some();
        if !other && view.record.is_some_and(|record| record.hold.is_some()) {
            store.write(|moment| bound(CLEAR, store, claim, moment)).await?;
        }
        let reason = if other { LostReason::Stolen } else { LostReason::Expired };
        return Ok(Released { release: Release::NotHeld(reason), next: None });
    }
}

async fn withdraw(store: &Store, claim: &Claim) -> Result<Answer> {
    store
        .write(|_| sqlx::query(WITHDRAW).bind(claim.key.as_bytes()).bind(claim.owner.as_bytes().as_slice()))
        .await
}

fn bound(sql: &'static str, store: &Store, claim: &Claim, moment: Moment) -> Statement {
    sqlx::query(sql)
        .bind(claim.key.as_bytes())
        .bind(claim.owner.as_bytes().as_slice())
        .bind(moment.nanos())
        .bind(store.machine.epoch())
}
