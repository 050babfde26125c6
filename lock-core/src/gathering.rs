//! Requests of several callers that go to the store together.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{self, Receiver, Sender};

use crate::error::{Effect, Error, ErrorKind, Result};
use crate::key::LockKey;

/// What a request is about.
pub trait Keyed: Debug + Send + 'static {
    /// The lock.
    fn key(&self) -> &LockKey;
}

/// Requests of callers that have to wait, for backends that can send many as one: while some are under way others gather,
/// and go together when there is room.
///
/// A request of type `C` is answered by an `O`. Each caller waits for its own answer; one task of the backend's sends for
/// all of them, and so ends with none. Only requests about different locks gather: a store would judge two about one lock by
/// what was there before both.
#[derive(Debug)]
pub struct Gathering<C, O>(Arc<Mutex<State<C, O>>>);

#[derive(Debug)]
struct State<C, O> {
    asked: VecDeque<Asked<C, O>>,
    /// Of those.
    keys: HashSet<LockKey>,
    is_sending: bool,
}

/// A request, and where its answer goes.
#[derive(Debug)]
pub struct Asked<C, O> {
    /// What is wanted.
    pub change: C,
    reply: Sender<O>,
}

impl<C, O> Asked<C, O> {
    /// Answers it. Nobody may be waiting any more.
    pub fn tell(self, outcome: O) {
        drop(self.reply.send(outcome));
    }

    /// Waits until nobody waits for the answer any more. May be dropped at any point.
    pub async fn unheard(&mut self) {
        self.reply.closed().await;
    }
}

impl<C: Keyed, O: Debug + Send + 'static> Gathering<C, O> {
    /// Adds a request, to whose answer the first part leads. Dropped before it was sent, the request is left out.
    ///
    /// Whoever gets the other part has to send what gathers, in a task of its own.
    ///
    /// # Errors
    /// Gives the request back if another one about its lock waits. It is to go alone, and at once: were many to wait for
    /// each other, each behind one that gets no answer, the last would wait for ever.
    pub fn ask(&self, change: C) -> std::result::Result<Waits<C, O>, C> {
        let mut state = lock(&self.0);
        if !state.keys.insert(change.key().clone()) {
            return Err(change);
        }
        let (reply, answer) = oneshot::channel();
        state.asked.push_back(Asked { change, reply });
        let was_sending = std::mem::replace(&mut state.is_sending, true);
        Ok((Reply(answer), (!was_sending).then(|| Sending(Some(Arc::clone(&self.0))))))
    }
}

/// An answer to wait for, and maybe the duty to send.
type Waits<C, O> = (Reply<O>, Option<Sending<C, O>>);

/// The way to the answer of a request.
#[derive(Debug)]
#[must_use]
pub struct Reply<O>(Receiver<O>);

impl<O> Reply<O> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// `Unavailable`, of unknown effect, if whoever was to send the request is gone.
    ///
    /// # Cancel safety
    /// Dropped before the request was sent, it is left out; later, it goes on.
    pub async fn answer(self) -> Result<O> {
        self.0.await.map_err(|_| {
            let message = "the runtime that sent this for several callers has ended; try again";
            Error::new(ErrorKind::Unavailable, message).with_effect(Effect::Unknown)
        })
    }
}

impl<C, O> Default for Gathering<C, O> {
    fn default() -> Self {
        let (asked, keys) = (VecDeque::new(), HashSet::new());
        Self(Arc::new(Mutex::new(State { asked, keys, is_sending: false })))
    }
}

/// The duty to send what gathers.
///
/// Dropped before [`Sending::next`] gave `None`, as when its runtime ends, it tells all who wait, who may be in another
/// runtime, by dropping their requests; the next one to ask is given the duty.
#[derive(Debug)]
#[must_use]
pub struct Sending<C: Keyed, O: Debug + Send + 'static>(Option<Arc<Mutex<State<C, O>>>>);

impl<C: Keyed, O: Debug + Send + 'static> Sending<C, O> {
    /// Up to `most` of the requests that wait, first come, first served; `None` if there are none, and then the duty is
    /// done.
    pub fn next(&mut self, most: usize) -> Option<Vec<Asked<C, O>>> {
        let mut state = lock(self.0.as_ref()?);
        let mut next = Vec::with_capacity(state.asked.len().min(most));
        while next.len() < most
            && let Some(one) = state.asked.pop_front()
        {
            state.keys.remove(one.change.key());
            if !one.reply.is_closed() {
                next.push(one);
            }
        }
        if !next.is_empty() {
            return Some(next);
        }
        state.is_sending = false;
        drop(state);
        self.0 = None;
        None
    }
}

impl<C: Keyed, O: Debug + Send + 'static> Drop for Sending<C, O> {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            let mut state = lock(state);
            state.is_sending = false;
            state.keys.clear();
            let asked = std::mem::take(&mut state.asked);
            drop(state);
            // Wakes them.
            drop(asked);
        }
    }
}

fn lock<C, O>(state: &Mutex<State<C, O>>) -> MutexGuard<'_, State<C, O>> {
    // Every change is complete before anything can panic.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[derive(Debug)]
    struct Change(LockKey, u32);

    impl Keyed for Change {
        fn key(&self) -> &LockKey {
            &self.0
        }
    }

    fn change(key: &str, number: u32) -> Change {
        Change(LockKey::new(key).unwrap(), number)
    }

    fn numbers(asked: Option<Vec<Asked<Change, u32>>>) -> Vec<u32> {
        asked.into_iter().flatten().map(|one| one.change.1).collect()
    }

    fn ask(gathering: &Gathering<Change, u32>, key: &str, number: u32) -> Waits<Change, u32> {
        gathering.ask(change(key, number)).expect("no other of that lock waits")
    }

    #[test]
    fn requests_about_different_locks_go_in_order() {
        let gathering = Gathering::default();
        let (_first, sending) = ask(&gathering, "a", 1);
        let mut sending = sending.unwrap();
        let mut answers = Vec::new();
        for (key, number) in [("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
            let (answer, another) = ask(&gathering, key, number);
            assert!(another.is_none(), "one sends for all");
            answers.push(answer);
        }
        assert_eq!(gathering.ask(change("b", 6)).unwrap_err().1, 6, "another one waits");
        drop(answers.remove(2));
        assert_eq!(numbers(sending.next(2)), [1, 2]);
        let (_answer, _) = ask(&gathering, "b", 7);
        assert_eq!(numbers(sending.next(9)), [3, 5, 7], "nobody waits for 4 any more");
        assert!(sending.next(3).is_none());
        drop(sending);
        assert!(ask(&gathering, "d", 8).1.is_some(), "the next one is to send again");
    }

    #[tokio::test]
    async fn each_caller_gets_its_own_answer_and_is_told_if_there_is_none() {
        let gathering = Gathering::default();
        let (one, sending) = ask(&gathering, "a", 1);
        let (other, _) = ask(&gathering, "b", 2);
        let mut sending = sending.unwrap();
        for asked in sending.next(9).unwrap() {
            let answer = asked.change.1 * 10;
            asked.tell(answer);
        }
        assert_eq!((one.answer().await.unwrap(), other.answer().await.unwrap()), (10, 20));
        let (waits, _) = ask(&gathering, "c", 3);
        drop(sending);
        assert_eq!(waits.answer().await.unwrap_err().effect(), Effect::Unknown);
        let (given_up, sending) = ask(&gathering, "c", 4);
        let mut asked = sending.unwrap().next(9).unwrap();
        assert!(asked[0].unheard().now_or_never().is_none());
        drop(given_up);
        asked[0].unheard().await;
        let (waits, sending) = ask(&gathering, "d", 5);
        assert_eq!(numbers(sending.unwrap().next(9)), [5]);
        assert_eq!(waits.answer().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
