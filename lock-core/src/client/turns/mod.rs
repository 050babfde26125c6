//! The line in which contenders of one client stand for one key, so that only its head asks the store.

mod place;
mod turn;

use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, OccupiedEntry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

pub(crate) use place::Place;
pub(crate) use turn::Turn;

use super::handed_over::HandedOver;
use crate::error::{Error, ErrorKind, Result};
use crate::held::Held;
use crate::key::LockKey;
use crate::outcome::Busy;
use crate::request::LockRequest;

/// All lines of one client. A key has a line as long as somebody holds its turn.
#[derive(Debug)]
pub(crate) struct Turns {
    lines: Mutex<Lines>,
    most_waiters: usize,
}

#[derive(Debug, Default)]
struct Lines {
    by_key: BTreeMap<LockKey, Line>,
    waiters: usize,
    next_ticket: u64,
}

#[derive(Debug, Default)]
struct Line {
    waiting: BTreeMap<u64, Waiter>,
    /// Who of this client holds the lock.
    holder: Option<Weak<Held>>,
    /// What the store last answered to whoever has the turn.
    news: Option<Box<Result<Busy>>>,
    /// For how long this line has yet to stand back for others.
    owed: Duration,
}

#[derive(Debug)]
struct Waiter {
    /// What it would hold if the lock were handed over to it.
    request: LockRequest,
    call: oneshot::Sender<Called>,
}

/// How a waiter's time comes.
#[derive(Debug)]
pub(crate) enum Called {
    /// It is its turn to contend.
    Contend(Turn),
    /// The holder before it handed the lock over.
    Granted(HandedOver),
}

impl Line {
    /// What keeps those in line from the lock.
    fn obstacle(&self) -> Result<Option<Busy>> {
        match (self.holder.as_ref().and_then(Weak::upgrade), &self.news) {
            (Some(held), _) => Ok(Some(held.busy())),
            (None, Some(news)) => news.as_ref().clone().map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// What asking for a turn gives.
#[derive(Debug)]
pub(crate) enum Queued {
    Now(Turn),
    Later(Place),
}

impl Turns {
    pub(crate) fn new(most_waiters: usize) -> Arc<Self> {
        Arc::new(Self { lines: Mutex::default(), most_waiters })
    }

    /// Takes the turn if nobody has it.
    pub(crate) fn try_take(self: &Arc<Self>, key: &LockKey) -> Option<Turn> {
        match self.lines().by_key.entry(key.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(free) => {
                free.insert(Line::default());
                Some(self.turn(key))
            }
        }
    }

    /// Takes the turn, or a place in line for it.
    pub(crate) fn queue(self: &Arc<Self>, request: &LockRequest) -> Result<Queued> {
        let key = &request.claim.key;
        let mut lines = self.lines();
        let Lines { by_key, waiters, next_ticket } = &mut *lines;
        let mut line = match by_key.entry(key.clone()) {
            Entry::Occupied(line) => line,
            Entry::Vacant(free) => {
                free.insert(Line::default());
                return Ok(Queued::Now(self.turn(key)));
            }
        };
        if *waiters >= self.most_waiters {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{waiters} callers wait for locks of this client already, which is its limit; raise `max_waiters` or wait for fewer locks at once"
                ),
            ));
        }
        *waiters += 1;
        *next_ticket += 1;
        let (call, called) = oneshot::channel();
        line.get_mut().waiting.insert(*next_ticket, Waiter { request: request.clone(), call });
        Ok(Queued::Later(Place { turns: Arc::clone(self), key: key.clone(), ticket: *next_ticket, called }))
    }

    /// What keeps those of this client who wait for the key, if there are any: then a plain try must
    /// not pass.
    pub(crate) fn awaited(&self, key: &LockKey) -> Option<Result<Busy>> {
        let lines = self.lines();
        let line = lines.by_key.get(key)?;
        let awaited = line.holder.is_none() || !line.waiting.is_empty();
        awaited.then(|| line.obstacle().map(Option::unwrap_or_default))
    }

    /// Why a place in the line did not lead to the lock: what was last seen of its holder, or the
    /// trouble that the head of the line has with the store.
    pub(crate) fn obstacle(&self, key: &LockKey) -> Result<Option<Busy>> {
        let lines = self.lines();
        let Some(line) = lines.by_key.get(key) else { return Ok(None) };
        line.obstacle()
    }

    /// Who of this client holds the lock, if it has a turn.
    pub(super) fn holder(&self, key: &LockKey) -> Option<Arc<Held>> {
        self.lines().by_key.get(key)?.holder.as_ref()?.upgrade()
    }

    /// Calls the waiter whose request the lock was handed over to. Gives the hand-over back if that
    /// one has left.
    pub(super) fn call(&self, key: &LockKey, granted: HandedOver) -> Option<HandedOver> {
        let mut lines = self.lines();
        let Lines { by_key, waiters, .. } = &mut *lines;
        let first = by_key.get_mut(key).and_then(|line| line.waiting.first_entry());
        let first = first.filter(|entry| Some(entry.get().request.claim.owner) == granted.owner());
        let Some(waiter) = first.map(OccupiedEntry::remove) else { return Some(granted) };
        *waiters -= 1;
        drop(lines);
        match waiter.call.send(Called::Granted(granted)) {
            Err(Called::Granted(granted)) => Some(granted),
            Ok(()) | Err(Called::Contend(_)) => None,
        }
    }

    /// Sends everybody in line away.
    pub(crate) fn close(&self) {
        let mut lines = self.lines();
        let waiting: Vec<_> =
            lines.by_key.values_mut().map(|line| std::mem::take(&mut line.waiting)).collect();
        lines.waiters = 0;
        drop(lines);
        drop(waiting);
    }

    /// Number of keys with a line.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lines().by_key.len()
    }

    fn turn(self: &Arc<Self>, key: &LockKey) -> Turn {
        Turn { turns: Arc::clone(self), key: Some(key.clone()), handed_over: 0, row_since: None }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, key: Option<&LockKey>, change: impl FnOnce(&mut Line)) {
        let mut lines = self.lines();
        if let Some(line) = key.and_then(|key| lines.by_key.get_mut(key)) {
            change(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::turn::{LONGEST_ROW, MOST_IN_A_ROW, STANDING_BACK};
    use super::*;
    use crate::claim::Claim;
    use crate::clock::Instant;

    fn key() -> LockKey {
        LockKey::new("k").unwrap()
    }

    fn request() -> LockRequest {
        LockRequest::new(Claim::mint(key()), Duration::from_secs(1))
    }

    async fn turn(mut place: Place) -> Turn {
        match place.wait().await.unwrap() {
            Called::Contend(turn) => turn,
            Called::Granted(_) => panic!("nobody handed over"),
        }
    }

    fn place(turns: &Arc<Turns>) -> Place {
        match turns.queue(&request()).unwrap() {
            Queued::Later(place) => place,
            Queued::Now(_) => panic!("the turn was free"),
        }
    }

    #[tokio::test]
    async fn the_turn_goes_round_in_order_and_leaves_nothing() {
        let turns = Turns::new(10);
        let first = turns.try_take(&key()).unwrap();
        let (second, third) = (place(&turns), place(&turns));
        drop(first);
        let second = turn(second).await;
        assert!(turns.try_take(&key()).is_none());
        drop(second);
        drop(turn(third).await);
        assert_eq!(turns.len(), 0);
    }

    #[tokio::test]
    async fn one_who_left_is_passed_over_even_after_being_called() {
        let turns = Turns::new(10);
        let first = turns.try_take(&key()).unwrap();
        let (left, called, last) = (place(&turns), place(&turns), place(&turns));
        drop(left);
        drop(first);
        // Called, but never looked.
        drop(called);
        drop(turn(last).await);
        assert_eq!((turns.len(), turns.lines().waiters), (0, 0));
    }

    #[tokio::test]
    async fn a_line_stands_back_after_rows_until_others_had_the_lock() {
        let turns = Turns::new(10);
        let mut first = turns.try_take(&key()).unwrap();
        let (second, third, fourth) = (place(&turns), place(&turns), place(&turns));
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        first.hand_over(at(0));
        assert!(first.successor(at(99)).is_some());
        assert!(first.successor(at(5000)).is_none(), "the row was long enough");
        drop(first);
        let second = turn(second).await;
        assert_eq!(second.stand_back(), Some(LONGEST_ROW / STANDING_BACK));
        assert_eq!(second.stand_back(), None, "once");
        drop(second);
        let mut third = turn(third).await;
        third.hand_over(at(200));
        assert!(third.successor(at(360)).is_none());
        third.note(Ok(&Busy::unknown()));
        drop(third);
        assert_eq!(turn(fourth).await.stand_back(), None, "somebody else had it since");
    }

    #[tokio::test]
    async fn short_rows_add_up() {
        let turns = Turns::new(10);
        let mut first = turns.try_take(&key()).unwrap();
        let (second, third) = (place(&turns), place(&turns));
        let at = |micros: u64| Instant::from_nanos(micros * 1000);
        let row = |turn: &mut Turn| {
            for _ in 0..MOST_IN_A_ROW {
                turn.hand_over(at(0));
            }
            assert!(turn.successor(at(8000)).is_none());
        };
        row(&mut first);
        drop(first);
        let mut second = turn(second).await;
        assert_eq!(second.stand_back(), None, "half a millisecond is no time for a timer");
        row(&mut second);
        drop(second);
        assert_eq!(turn(third).await.stand_back(), Some(Duration::from_millis(1)));
    }

    #[test]
    fn waiters_are_bounded() {
        let turns = Turns::new(1);
        let _turn = turns.try_take(&key()).unwrap();
        let _place = place(&turns);
        assert_eq!(turns.queue(&request()).unwrap_err().kind(), ErrorKind::Overloaded);
    }
}
