//! Requests of several callers that go to the store together.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{self, Receiver, Sender};

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
/// all of them, and so ends with none.
#[derive(Debug)]
pub struct Gathering<C, O>(Arc<Mutex<State<C, O>>>);

#[derive(Debug)]
struct State<C, O> {
    asked: Vec<Asked<C, O>>,
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
    /// Adds a request. Its answer comes through the receiver, or an error if whoever was to send it is gone: then it may
    /// have been sent. Dropped before it was sent, it is left out.
    ///
    /// Whoever gets the other part has to send what gathers, in a task of its own.
    pub fn ask(&self, change: C) -> (Receiver<O>, Option<Sending<C, O>>) {
        let (reply, answer) = oneshot::channel();
        let mut state = lock(&self.0);
        state.asked.push(Asked { change, reply });
        let was_sending = std::mem::replace(&mut state.is_sending, true);
        (answer, (!was_sending).then(|| Sending(Some(Arc::clone(&self.0)))))
    }
}

impl<C, O> Default for Gathering<C, O> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { asked: Vec::new(), is_sending: false })))
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
    /// done. Requests about one lock never go together: a store would judge both by what was there before.
    pub fn next(&mut self, most: usize) -> Option<Vec<Asked<C, O>>> {
        let mut state = lock(self.0.as_ref()?);
        state.asked.retain(|one| !one.reply.is_closed());
        let mut keys = HashSet::with_capacity(state.asked.len().min(most));
        let (next, later): (Vec<_>, _) =
            state.asked.drain(..).partition(|one| keys.len() < most && keys.insert(one.change.key().clone()));
        state.asked = later;
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

    #[test]
    fn requests_go_in_order_and_those_about_one_lock_one_after_the_other() {
        let gathering = Gathering::default();
        let (_first, sending) = gathering.ask(change("a", 1));
        let mut sending = sending.unwrap();
        let mut answers = Vec::new();
        for (key, number) in [("b", 2), ("a", 3), ("c", 4), ("a", 5), ("d", 6), ("e", 7)] {
            let (answer, another) = gathering.ask(change(key, number));
            assert!(another.is_none(), "one sends for all");
            answers.push(answer);
        }
        drop(answers.remove(4));
        assert_eq!(numbers(sending.next(3)), [1, 2, 4]);
        assert_eq!(numbers(sending.next(3)), [3, 7], "nobody waits for 6 any more");
        assert_eq!(numbers(sending.next(3)), [5]);
        assert!(sending.next(3).is_none());
        drop(sending);
        assert!(gathering.ask(change("a", 8)).1.is_some(), "the next one is to send again");
    }

    #[tokio::test]
    async fn each_caller_gets_its_own_answer_and_is_told_if_there_is_none() {
        let gathering = Gathering::default();
        let (one, sending) = gathering.ask(change("a", 1));
        let (other, _) = gathering.ask(change("b", 2));
        let mut sending = sending.unwrap();
        for asked in sending.next(9).unwrap() {
            let answer = asked.change.1 * 10;
            asked.tell(answer);
        }
        assert_eq!((one.await, other.await), (Ok(10), Ok(20)));
        let (waits, _) = gathering.ask(change("c", 3));
        drop(sending);
        assert!(waits.await.is_err());
        let (given_up, sending) = gathering.ask(change("d", 4));
        let mut asked = sending.unwrap().next(9).unwrap();
        assert!(asked[0].unheard().now_or_never().is_none());
        drop(given_up);
        asked[0].unheard().await;
        let (waits, sending) = gathering.ask(change("d", 4));
        assert_eq!(numbers(sending.unwrap().next(9)), [4]);
        assert!(waits.await.is_err());
    }
}
