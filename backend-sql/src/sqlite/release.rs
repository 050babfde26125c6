//! Giving a lock back.

use distlock_core::{Claim, LostReason, Release, Result};

use super::connection::{Answer, Statement};
use super::look::look;
use super::machine::Moment;
use super::store::Store;

/// Frees the lock if the claim holds it. A trigger takes the claim's mark away in the same statement.
const RELEASE: &str = "UPDATE distlock_locks
 SET owner = NULL, deadline = NULL, epoch = NULL, ttl = NULL, metadata = NULL, flips = 0
 WHERE key = ?1 AND owner = ?2 AND (epoch <> ?4 OR deadline > ?3)";

/// Takes the claim out of the queue.
const WITHDRAW: &str = "DELETE FROM distlock_claims WHERE key = ?1 AND owner = ?2";

/// Frees a lock whose holder comes back after its time has run out.
const CLEAR: &str = "UPDATE distlock_locks
 SET owner = NULL, deadline = NULL, epoch = NULL, ttl = NULL, metadata = NULL, flips = 0
 WHERE key = ?1 AND owner = ?2 AND epoch = ?4 AND deadline <= ?3";

/// Removes every trace of `claim`: one statement if it holds the lock.
pub(super) async fn unlock(store: &Store, claim: &Claim) -> Result<Release> {
    loop {
        if store.write(|moment| bound(RELEASE, store, claim, moment)).await?.changed > 0 {
            return Ok(Release::Released);
        }
        withdraw(store, claim).await?;
        let view = look(store, claim).await?;
        if view.is_held_by(claim.owner, store) {
            // An attempt of this claim that was on its way has landed meanwhile.
            continue;
        }
        if view.hold(store).is_some() {
            return Ok(Release::NotHeld(LostReason::Stolen));
        }
        if view.record.is_some_and(|record| record.hold.is_some()) {
            store.write(|moment| bound(CLEAR, store, claim, moment)).await?;
        }
        return Ok(Release::NotHeld(LostReason::Expired));
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
