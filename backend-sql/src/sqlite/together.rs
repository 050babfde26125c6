//! Changes that wait for the connection that writes, made in one statement.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use distlock_core::{Effect, Error, ErrorKind, LockKey, Result, Running, RunningGuard};
use tokio::sync::oneshot;

use super::connection::{Answer, Statement};
use super::list::RowList;
use super::machine::{Machine, Moment};
use super::record::key_column;
use super::store::Store;

/// How many changes one statement makes: enough to make a commit's cost small beside theirs, and few
/// enough that other operations get their turn in between.
const MOST: usize = 64;

/// A change of one lock's record that one statement can make for many.
pub(super) trait Change: Debug + Send + Sync + 'static {
    /// The statement that makes this change alone.
    fn alone(&self, machine: &Machine, moment: Moment) -> Statement;

    /// One statement for changes of as many locks, each of which it makes or does not by itself. It
    /// returns the keys of those it made.
    fn together<'a>(changes: impl Iterator<Item = &'a Self>, machine: &Machine, moment: Moment) -> Statement;

    /// Of which lock.
    fn key(&self) -> &LockKey;

    /// Where those of this kind wait.
    fn waiting(store: &Store) -> &Waiting<Self>
    where
        Self: Sized;
}

/// Changes of one kind that wait for their turn.
#[derive(Debug)]
pub(super) struct Waiting<C> {
    asked: Mutex<Vec<Asked<C>>>,
    running: Running,
}

#[derive(Debug)]
struct Asked<C> {
    change: C,
    reply: oneshot::Sender<Result<Option<Moment>>>,
}

impl<C> Default for Waiting<C> {
    fn default() -> Self {
        Self { asked: Mutex::default(), running: Running::default() }
    }
}

impl<C: Change> Waiting<C> {
    /// The next ones to be sent. A change whose caller was dropped is left out. Each key comes once,
    /// so that what became of a change can be told by its key.
    fn next(&self) -> Vec<Asked<C>> {
        let mut asked = self.asked();
        asked.retain(|one| !one.reply.is_closed());
        let mut keys = HashSet::with_capacity(asked.len().min(MOST));
        let (next, later) = asked
            .drain(..)
            .partition(|one: &Asked<C>| keys.len() < MOST && keys.insert(one.change.key().clone()));
        *asked = later;
        next
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Asked<C>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a change, and says when its statement was sent if it did anything.
///
/// At once if the connection is free. Else it goes together with others of its kind that wait by
/// then: sixty-four callers cost one commit and two changes of thread, and not one and two each.
///
/// Dropping the future before the statement was sent leaves the change out; later, it is made.
pub(super) async fn make<C: Change>(store: &Arc<Store>, change: C) -> Result<Option<Moment>> {
    if let Some(mut turn) = store.writer.free_turn() {
        let answer = turn.run(|moment| change.alone(&store.machine, moment)).await?;
        drop(turn);
        store.checkpoints.after_writes(1);
        return Ok(made(&answer));
    }
    let (reply, outcome) = oneshot::channel();
    C::waiting(store).asked().push(Asked { change, reply });
    start::<C>(store);
    outcome.await.unwrap_or_else(|_| {
        let message = "the runtime that sent this for several callers has ended; try again";
        Err(Error::new(ErrorKind::Unavailable, message).with_effect(Effect::Unknown))
    })
}

fn made(answer: &Answer) -> Option<Moment> {
    (answer.changed > 0).then_some(answer.sent)
}

/// A statement for all rows of `list`, which is its first parameter; the moment and the epoch are its
/// third and its fourth, as for one claim.
pub(super) fn many(sql: &'static str, list: RowList, machine: &Machine, moment: Moment) -> Statement {
    sqlx::query(sql).bind(list.into_json()).bind(None::<i64>).bind(moment.nanos()).bind(machine.epoch())
}

/// Sends what waits, in a task that serves all callers and so must not end with one of them.
fn start<C: Change>(store: &Arc<Store>) {
    let Some(running) = C::waiting(store).running.begin() else { return };
    let mut sending = Sending::<C> { store: Arc::clone(store), running: Some(running), waiting: C::waiting };
    #[expect(
        clippy::disallowed_methods,
        reason = "serves several callers; it ends when nobody waits, and each of its statements is bounded"
    )]
    tokio::spawn(async move {
        while !C::waiting(&sending.store).asked().is_empty() {
            send::<C>(&sending.store).await;
        }
        sending.running = None;
        // Somebody may have come between the last look and the end.
        if !C::waiting(&sending.store).asked().is_empty() {
            start::<C>(&sending.store);
        }
    });
}

/// Held by the task that sends.
struct Sending<C: Change> {
    store: Arc<Store>,
    running: Option<RunningGuard>,
    waiting: fn(&Store) -> &Waiting<C>,
}

impl<C: Change> Drop for Sending<C> {
    fn drop(&mut self) {
        // Still running: the runtime ended, and callers in another one must not wait for ever. In
        // this order, so that whoever comes meanwhile starts a task of its own or is told as well.
        if self.running.take().is_some() {
            (self.waiting)(&self.store).asked().clear();
        }
    }
}

async fn send<C: Change>(store: &Arc<Store>) {
    let turn = store.writer.turn().await;
    let asked = C::waiting(store).next();
    let mut turn = match turn {
        Ok(turn) => turn,
        Err(error) => return tell_all(asked, &error),
    };
    let machine = &store.machine;
    if asked.len() > 1 {
        let answer =
            turn.run(|moment| C::together(asked.iter().map(|one| &one.change), machine, moment)).await;
        match answer.and_then(|answer| Ok((keys(&answer)?, answer.sent))) {
            Ok((keys, sent)) => {
                drop(turn);
                store.checkpoints.after_writes(asked.len());
                for one in asked {
                    let is_made = keys.contains(one.change.key());
                    // Nobody may be waiting any more.
                    let _ = one.reply.send(Ok(is_made.then_some(sent)));
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
        let answer = turn.run(|moment| one.change.alone(machine, moment)).await;
        store.checkpoints.after_writes(1);
        let _ = one.reply.send(answer.map(|answer| made(&answer)));
    }
}

fn keys(answer: &Answer) -> Result<HashSet<LockKey>> {
    answer.rows.iter().map(|row| key_column(row, 0)).collect()
}

fn tell_all<C>(asked: Vec<Asked<C>>, error: &Error) {
    for one in asked {
        let _ = one.reply.send(Err(error.clone()));
    }
}
