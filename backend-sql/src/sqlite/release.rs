//! Giving a lock back.

use std::sync::Arc;

use distlock_core::{Claim, Gathering, Keyed, LockKey, LostReason, Release, Result};

use super::connection::{Answer, Statement};
use super::list::RowList;
use super::look::look;
use super::machine::{Machine, Moment};
use super::store::Store;
use super::together::{self, Change, Outcome, many};

/// What frees a lock; its token stays.
macro_rules! free {
    () => {
        "owner = NULL, deadline = NULL, epoch = NULL, ttl = NULL, metadata = NULL, flips = 0"
    };
}

/// Frees the lock if the claim holds it. A trigger takes the claim's mark away in the same statement.
const RELEASE: &str = concat!(
    "UPDATE distlock_locks SET ",
    free!(),
    " WHERE key = ?1 AND owner = ?2 AND (epoch <> ?4 OR deadline > ?3)"
);

/// Does the same for each `[key, owner]` in a list, and says which ones it freed.
const RELEASE_MANY: &str = concat!(
    "UPDATE distlock_locks AS l SET ",
    free!(),
    " FROM json_each(?1) j WHERE l.key = unhex(j.value ->> 0) AND l.owner = unhex(j.value ->> 1)
   AND (l.epoch <> ?4 OR l.deadline > ?3)
 RETURNING key"
);

/// Takes the claim out of the queue.
const WITHDRAW: &str = "DELETE FROM distlock_claims WHERE key = ?1 AND owner = ?2";

/// Frees a lock whose holder comes back after its time has run out.
const CLEAR: &str = concat!(
    "UPDATE distlock_locks SET ",
    free!(),
    " WHERE key = ?1 AND owner = ?2 AND epoch = ?4 AND deadline <= ?3"
);

/// A release that is wanted.
#[derive(Debug)]
pub(super) struct Giving(Claim);

impl Keyed for Giving {
    fn key(&self) -> &LockKey {
        &self.0.key
    }
}

impl Change for Giving {
    fn alone(&self, machine: &Machine, moment: Moment) -> Statement {
        bound(RELEASE, machine, &self.0, moment)
    }

    fn together<'a>(all: impl Iterator<Item = &'a Self>, machine: &Machine, moment: Moment) -> Statement {
        let mut list = RowList::with_capacity(all.size_hint().0);
        for Self(claim) in all {
            list.row(claim.key.as_bytes()).bytes(claim.owner.as_bytes());
        }
        many(RELEASE_MANY, list, machine, moment)
    }

    fn gathering(store: &Store) -> &Gathering<Self, Outcome> {
        &store.releases
    }
}

/// Removes every trace of `claim`: one statement if it holds the lock.
pub(super) async fn unlock(store: &Arc<Store>, claim: &Claim) -> Result<Release> {
    loop {
        if together::make(store, Giving(claim.clone())).await?.is_some() {
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
            store.write(|moment| bound(CLEAR, &store.machine, claim, moment)).await?;
        }
        return Ok(Release::NotHeld(LostReason::Expired));
    }
}

async fn withdraw(store: &Store, claim: &Claim) -> Result<Answer> {
    store
        .write(|_| sqlx::query(WITHDRAW).bind(claim.key.as_bytes()).bind(claim.owner.as_bytes().as_slice()))
        .await
}

fn bound(sql: &'static str, machine: &Machine, claim: &Claim, moment: Moment) -> Statement {
    sqlx::query(sql)
        .bind(claim.key.as_bytes())
        .bind(claim.owner.as_bytes().as_slice())
        .bind(moment.nanos())
        .bind(machine.epoch())
}
