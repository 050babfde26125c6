//! Changes that wait for the connection that writes, made in one statement.

use std::collections::HashSet;
use std::sync::Arc;

use distlock_core::{Asked, Error, ErrorKind, Gathering, Keyed, LockKey, Result, Sending};

use super::connection::{Answer, Statement, Turn};
use super::list::RowList;
use super::machine::{Machine, Moment};
use super::record::key_column;
use super::store::Store;

/// How many changes one statement makes: enough to make a commit's cost small beside theirs, and few
/// enough that other operations get their turn in between.
const MOST: usize = 64;

/// A change of one lock's record that one statement can make for many.
pub(super) trait Change: Keyed + Sync {
    /// The statement that makes this change alone.
    fn alone(&self, machine: &Machine, moment: Moment) -> Statement;

    /// One statement for changes of as many locks, each of which it makes or does not by itself. It
    /// returns the keys of those it made.
    fn together<'a>(changes: impl Iterator<Item = &'a Self>, machine: &Machine, moment: Moment) -> Statement;

    /// Where those of this kind wait.
    fn gathering(store: &Store) -> &Gathering<Self, Outcome>
    where
        Self: Sized;
}

/// When the statement was sent, if it did anything.
pub(super) type Outcome = Result<Option<Moment>>;

/// Makes a change, and says when its statement was sent if it did anything.
///
/// At once if the connection is free. Else, unless another one of that lock waits, it goes together with
/// others of its kind that wait by then: sixty-four callers cost one commit and two changes of thread,
/// and not one and two each.
///
/// Dropping the future before the statement was sent leaves the change out; later, it is made.
pub(super) async fn make<C: Change>(store: &Arc<Store>, change: C) -> Outcome {
    if let Some(mut turn) = store.writer.free_turn() {
        return alone(store, &mut turn, &change).await;
    }
    let (reply, sending) = match C::gathering(store).ask(change) {
        Ok(waits) => waits,
        Err(change) => return alone(store, &mut store.writer.turn().await?, &change).await,
    };
    if let Some(sending) = sending {
        let store = Arc::clone(store);
        #[expect(
            clippy::disallowed_methods,
            reason = "serves several callers; it ends when nobody waits, and each of its statements is bounded"
        )]
        tokio::spawn(send(store, sending));
    }
    reply.answer().await?
}

/// A statement for all rows of `list`, which is its first parameter; the moment and the epoch are its
/// third and its fourth, as for one claim.
pub(super) fn many(sql: &'static str, list: RowList, machine: &Machine, moment: Moment) -> Statement {
    sqlx::query(sql).bind(list.into_json()).bind(None::<i64>).bind(moment.nanos()).bind(machine.epoch())
}

async fn alone<C: Change>(store: &Store, turn: &mut Turn<'_>, change: &C) -> Outcome {
    let answer = turn.run(|moment| change.alone(&store.machine, moment)).await?;
    store.checkpoints.after_writes(1);
    Ok((answer.changed > 0).then_some(answer.sent))
}

async fn send<C: Change>(store: Arc<Store>, mut sending: Sending<C, Outcome>) {
    loop {
        // More gather while it waits.
        let turn = store.writer.turn().await;
        let Some(asked) = sending.next(MOST) else { return };
        match turn {
            Ok(mut turn) => together(&store, &mut turn, asked).await,
            Err(error) => tell_all(asked, &error),
        }
    }
}

async fn together<C: Change>(store: &Store, turn: &mut Turn<'_>, asked: Vec<Asked<C, Outcome>>) {
    if asked.len() > 1 {
        let answer =
            turn.run(|moment| C::together(asked.iter().map(|one| &one.change), &store.machine, moment)).await;
        match answer.and_then(|answer| Ok((keys(&answer)?, answer.sent))) {
            Ok((keys, sent)) => {
                store.checkpoints.after_writes(asked.len());
                for one in asked {
                    let is_made = keys.contains(one.change.key());
                    one.tell(Ok(is_made.then_some(sent)));
                }
                return;
            }
            // What is in the way is in everybody's.
            Err(error) if error.kind() == ErrorKind::Unavailable => return tell_all(asked, &error),
            // One record may be the cause; the others' changes must not fail with it.
            Err(_) => {}
        }
    }
    for one in asked {
        let outcome = alone(store, turn, &one.change).await;
        one.tell(outcome);
    }
}

fn keys(answer: &Answer) -> Result<HashSet<LockKey>> {
    answer.rows.iter().map(|row| key_column(row, 0)).collect()
}

fn tell_all<C>(asked: Vec<Asked<C, Outcome>>, error: &Error) {
    for one in asked {
        one.tell(Err(error.clone()));
    }
}
