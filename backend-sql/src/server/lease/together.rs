//! Attempts and releases of several callers, each kind made by one statement.

use std::fmt::Write;
use std::sync::Arc;

use distlock_core::{
    Asked, Claim, Effect, Error, ErrorKind, Gathering, Keyed, LockKey, OwnerId, Result, Sending,
};
use futures_util::future::join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::hex::push_hex;
use crate::server::connections::Lane;
use crate::server::error::{Doing, late};
use crate::server::statement::{Answer, Row, Statement};
use crate::server::statements::Statements;
use crate::server::store::Store;

/// So many statements of a kind are under way before others gather: a server writes several to its disk at once, so that one
/// at a time would leave it waiting.
const ABREAST: usize = 4;

/// So many locks one statement is about: few enough for a bit each, and that nobody waits long for a row among them.
const MOST: usize = 32;

/// What is wanted of a lock's row.
#[derive(Debug)]
pub(in crate::server) enum Change {
    /// See [`Statements::acquire`].
    Acquire { claim: Claim, ttl: i64, metadata: String },
    /// See [`Statements::release`].
    Release(Claim),
}

/// Where changes of one kind wait while so many of it are under way.
#[derive(Debug)]
pub(in crate::server) struct Together {
    gathering: Gathering<Change, Outcome>,
    abreast: Arc<Semaphore>,
}

type Outcome = Result<Answer>;

impl Default for Together {
    fn default() -> Self {
        Self { gathering: Gathering::default(), abreast: Arc::new(Semaphore::new(ABREAST)) }
    }
}

/// Makes a change: at once if few are under way, or if another one of that lock waits, and else with others that wait by
/// then. The answer is that of the statement for this change alone.
///
/// Dropped before it was sent, it is left out; later, it is made.
pub(super) async fn make(store: &Arc<Store>, change: Change) -> Outcome {
    if !store.gathers {
        return alone(store, &change).await;
    }
    let together = change.together(store);
    if let Ok(_room) = together.abreast.try_acquire() {
        return alone(store, &change).await;
    }
    let (reply, sending) = match together.gathering.ask(change) {
        Ok(waits) => waits,
        Err(change) => return alone(store, &change).await,
    };
    if let Some(sending) = sending {
        let (store, abreast) = (Arc::clone(store), Arc::clone(&together.abreast));
        #[expect(clippy::disallowed_methods, reason = "serves several callers; it ends when nobody waits")]
        tokio::spawn(send(store, abreast, sending));
    }
    // As for a single statement, which is given up after so long wherever it waits.
    let answer = store.timers.limit(store.response_timeout, reply.answer()).await;
    answer.ok_or_else(|| late(Doing::Running))??
}

impl Keyed for Change {
    fn key(&self) -> &LockKey {
        &self.claim().key
    }
}

impl Change {
    const fn claim(&self) -> &Claim {
        match self {
            Self::Acquire { claim, .. } | Self::Release(claim) => claim,
        }
    }

    const fn lane(&self) -> Lane {
        match self {
            Self::Acquire { .. } => Lane::Attempt,
            Self::Release(_) => Lane::Upkeep,
        }
    }

    const fn together<'a>(&self, store: &'a Store) -> &'a Together {
        match self {
            Self::Acquire { .. } => &store.acquiring,
            Self::Release(_) => &store.releasing,
        }
    }

    fn alone(&self, sql: &Statements) -> Statement {
        match self {
            Self::Acquire { claim, ttl, metadata } => {
                let metadata = metadata.as_str().into();
                sql.acquire.with([(&claim.key).into(), claim.owner.into(), (*ttl).into(), metadata])
            }
            Self::Release(claim) => sql.release.with([(&claim.key).into(), claim.owner.into()]),
        }
    }

    /// One statement for as many changes of this kind.
    fn many(&self, sql: &Statements, list: String) -> Statement {
        match self {
            Self::Acquire { .. } => sql.acquire_many.with([list.into()]),
            Self::Release(_) => sql.release_many.with([list.into()]),
        }
    }

    /// Adds what such a statement has to know.
    fn list(&self, place: usize, list: &mut String) {
        let claim = self.claim();
        list.push_str(if place == 0 { "[{\"k\":\"" } else { ",{\"k\":\"" });
        push_hex(list, claim.key.as_bytes());
        list.push_str("\",\"o\":\"");
        push_hex(list, claim.owner.as_bytes());
        // Writing to a String can't fail.
        let _ = write!(list, "\",\"i\":{place}");
        if let Self::Acquire { ttl, metadata, .. } = self {
            let _ = write!(list, ",\"t\":{ttl},\"m\":\"");
            push_hex(list, metadata.as_bytes());
            list.push('"');
        }
        list.push('}');
    }

    /// The answer to this change, out of that to all.
    fn part(&self, place: usize, answer: &Answer) -> Result<Answer> {
        let Answer { sent, was_repeated, .. } = *answer;
        let mut part = Answer { sent, rows: Vec::new(), matched: 0, number: 0, was_repeated };
        match self {
            Self::Acquire { claim, .. } => {
                if let Some(row) = row_of(&claim.key, answer)? {
                    if row.maybe_bytes(2)?.and_then(OwnerId::from_bytes) == Some(claim.owner) {
                        part.number = row.int(1)?;
                    }
                    part.rows.push(row.clone());
                }
            }
            Self::Release(_) => part.matched = u64::from(answer.number >> place & 1 == 1),
        }
        Ok(part)
    }
}

fn row_of<'a>(key: &LockKey, answer: &'a Answer) -> Result<Option<&'a Row>> {
    for row in &answer.rows {
        if row.maybe_bytes(0)? == Some(key.as_bytes()) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

async fn alone(store: &Store, change: &Change) -> Outcome {
    store.run(change.lane(), change.alone(&store.sql)).await
}

async fn send(store: Arc<Store>, abreast: Arc<Semaphore>, mut sending: Sending<Change, Outcome>) {
    // More gather while it waits. Nobody closes the semaphore.
    while let Ok(room) = Arc::clone(&abreast).acquire_owned().await {
        let Some(asked) = sending.next(MOST) else { return };
        #[expect(
            clippy::disallowed_methods,
            reason = "serves several callers; its statements are bounded in time"
        )]
        tokio::spawn(send_as_one(Arc::clone(&store), asked, room));
    }
}

async fn send_as_one(store: Arc<Store>, mut asked: Vec<Asked<Change, Outcome>>, _room: OwnedSemaphorePermit) {
    // All that lock several rows do so in this order, so that they can't wait for each other in a circle.
    asked.sort_unstable_by(|one, other| one.change.key().cmp(other.change.key()));
    let [first, _, ..] = &asked[..] else { return each_alone(&store, asked).await };
    let mut list = String::with_capacity(asked.len() * 128);
    for (place, one) in asked.iter().enumerate() {
        one.change.list(place, &mut list);
    }
    list.push(']');
    match store.run(first.change.lane(), first.change.many(&store.sql, list)).await {
        Ok(answer) => {
            for (place, one) in asked.into_iter().enumerate() {
                let part = one.change.part(place, &answer).map_err(|error| answer.doubt(error));
                one.tell(part);
            }
        }
        // Nothing was changed, and one row may be the cause: the others must not fail with it.
        Err(error)
            if error.effect() == Effect::None
                && (error.is_retryable() || error.kind() == ErrorKind::Corrupt) =>
        {
            each_alone(&store, asked).await;
        }
        Err(error) => tell_all(asked, &error),
    }
}

async fn each_alone(store: &Store, asked: Vec<Asked<Change, Outcome>>) {
    let each = asked.into_iter().map(async |one| {
        let outcome = alone(store, &one.change).await;
        one.tell(outcome);
    });
    join_all(each).await;
}

fn tell_all(asked: Vec<Asked<Change, Outcome>>, error: &Error) {
    for one in asked {
        one.tell(Err(error.clone()));
    }
}
