//! Who gets a connection next.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Lane;

/// A number of places, each for one connection, and what lies at those that nobody has.
///
/// Upkeep goes before attempts, of which only some may have a place at a time; within a lane it goes by
/// order. A place that is given back is not promised to who comes next, who is only woken: a caller that was just
/// granted a lock and gives it back at once goes on with the same connection.
#[derive(Debug)]
pub(super) struct Places<T>(Arc<Mutex<State<T>>>);

#[derive(Debug)]
struct State<T> {
    free: usize,
    free_for_attempts: usize,
    idle: Vec<T>,
    /// Who waits, by lane; without a waker when told to look.
    upkeep: VecDeque<Waiter>,
    attempts: VecDeque<Waiter>,
    next_number: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    waker: Option<Waker>,
}

/// A place that somebody has; given back when dropped.
#[derive(Debug)]
pub(super) struct Place<T> {
    places: Arc<Mutex<State<T>>>,
    lane: Lane,
    leaves: Option<T>,
}

impl<T> Places<T> {
    pub(super) fn new(all: usize, for_attempts: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: all,
            free_for_attempts: for_attempts,
            idle: Vec::new(),
            upkeep: VecDeque::new(),
            attempts: VecDeque::new(),
            next_number: 0,
            is_closed: false,
        })))
    }

    /// Waits for a place. `None` after the close.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub(super) async fn take(&self, lane: Lane) -> Option<Place<T>> {
        let mut waiting = Waiting { places: &self.0, lane, number: None };
        poll_fn(|context| waiting.poll(context)).await?;
        Some(Place { places: Arc::clone(&self.0), lane, leaves: None })
    }

    /// Takes what lies idle and is `fit`, used last if there is a choice. What is not fit is dropped.
    pub(super) fn take_fit(&self, fit: impl Fn(&T) -> bool) -> Option<T> {
        let (idle, unfit) = {
            let mut state = lock(&self.0);
            let unfit: Vec<T> = state.idle.extract_if(.., |idle| !fit(idle)).collect();
            (state.idle.pop(), unfit)
        };
        drop(unfit);
        idle
    }

    /// Takes all that lies idle.
    pub(super) fn take_idle(&self) -> Vec<T> {
        std::mem::take(&mut lock(&self.0).idle)
    }

    pub(super) fn idle(&self) -> usize {
        lock(&self.0).idle.len()
    }

    /// Nobody gets a place any more, and nothing is left at one.
    pub(super) fn close(&self) {
        let mut state = lock(&self.0);
        state.is_closed = true;
        let waiting = [std::mem::take(&mut state.upkeep), std::mem::take(&mut state.attempts)];
        drop(state);
        waiting.into_iter().flatten().filter_map(|waiter| waiter.waker).for_each(Waker::wake);
    }
}

impl<T> Place<T> {
    /// Gives the place back, and leaves this for who comes next.
    pub(super) fn leave(mut self, what: T) {
        self.leaves = Some(what);
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.places);
        if !state.is_closed {
            state.idle.extend(self.leaves.take());
        }
        state.free += 1;
        state.free_for_attempts += usize::from(self.lane == Lane::Attempt);
        let next = state.next();
        drop(state);
        next.into_iter().for_each(Waker::wake);
    }
}

impl<T> State<T> {
    /// Whom to wake: the first that was not told yet, if there are more free places than those who were.
    fn next(&mut self) -> Option<Waker> {
        let attempts = (self.free_for_attempts > 0).then_some(&mut self.attempts);
        let waiting = self.upkeep.iter_mut().chain(attempts.into_iter().flatten());
        waiting.take(self.free).find_map(|waiter| waiter.waker.take())
    }

    fn of(&mut self, lane: Lane) -> &mut VecDeque<Waiter> {
        match lane {
            Lane::Attempt => &mut self.attempts,
            Lane::Upkeep => &mut self.upkeep,
        }
    }

    fn has_place_for(&self, lane: Lane) -> bool {
        match lane {
            Lane::Attempt => self.free > self.upkeep.len() && self.free_for_attempts > 0,
            Lane::Upkeep => self.free > 0,
        }
    }
}

/// A call that waits for a place; it leaves the line when dropped.
struct Waiting<'a, T> {
    places: &'a Mutex<State<T>>,
    lane: Lane,
    number: Option<u64>,
}

impl<T> Waiting<'_, T> {
    /// Ready with a place taken, or with `None` after the close.
    fn poll(&mut self, context: &Context<'_>) -> Poll<Option<()>> {
        let mut state = lock(self.places);
        if state.is_closed {
            return Poll::Ready(None);
        }
        let first = state.of(self.lane).front().map(|waiter| waiter.number);
        let is_first = first.is_none() || first == self.number;
        if is_first && state.has_place_for(self.lane) {
            if self.number.take().is_some() {
                state.of(self.lane).pop_front();
            }
            state.free -= 1;
            state.free_for_attempts -= usize::from(self.lane == Lane::Attempt);
            let next = state.next();
            drop(state);
            next.into_iter().for_each(Waker::wake);
            return Poll::Ready(Some(()));
        }
        let waker = Some(context.waker().clone());
        match self.number {
            Some(number) => {
                let line = state.of(self.lane);
                if let Some(waiter) = line.iter_mut().find(|waiter| waiter.number == number) {
                    waiter.waker = waker;
                }
            }
            None => {
                let number = state.next_number;
                state.next_number += 1;
                state.of(self.lane).push_back(Waiter { number, waker });
                self.number = Some(number);
            }
        }
        Poll::Pending
    }
}

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = lock(self.places);
        state.of(self.lane).retain(|waiter| waiter.number != number);
        // It may be the one that was told.
        let next = state.next();
        drop(state);
        next.into_iter().for_each(Waker::wake);
    }
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    // Every change is complete before anything can panic.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "each test awaits the tasks that it starts")]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::yield_now;

    use super::*;

    type Numbers = Places<u32>;

    async fn take(places: &Numbers, lane: Lane) -> Place<u32> {
        places.take(lane).await.expect("open")
    }

    fn now(places: &Numbers, lane: Lane) -> Option<Place<u32>> {
        take(places, lane).now_or_never()
    }

    #[tokio::test]
    async fn some_places_are_kept_for_upkeep_which_goes_first() {
        let places = Arc::new(Numbers::new(2, 1));
        let attempt = now(&places, Lane::Attempt).unwrap();
        assert!(now(&places, Lane::Attempt).is_none(), "the other place is for upkeep");
        let upkeep = now(&places, Lane::Upkeep).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for lane in [Lane::Attempt, Lane::Upkeep, Lane::Attempt, Lane::Upkeep] {
            let (places, order) = (Arc::clone(&places), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let place = take(&places, lane).await;
                order.lock().unwrap().push(lane);
                drop(place);
            }));
            yield_now().await;
        }
        drop(attempt);
        futures_util::future::join_all(tasks).await;
        assert_eq!(*order.lock().unwrap(), [Lane::Upkeep, Lane::Upkeep, Lane::Attempt, Lane::Attempt]);
        drop(upkeep);
        let state = lock(&places.0);
        assert_eq!((state.free, state.free_for_attempts), (2, 1));
    }

    #[tokio::test]
    async fn who_gives_back_a_place_may_take_it_again_before_attempts_that_wait() {
        let places = Numbers::new(1, 1);
        let mut waiting = Box::pin(take(&places, Lane::Attempt));
        let place = now(&places, Lane::Attempt).unwrap();
        assert!((&mut waiting).now_or_never().is_none());
        place.leave(7);
        let place = places.take(Lane::Upkeep).now_or_never().flatten().unwrap();
        let idle = places.take_fit(|_| true);
        assert_eq!(idle, Some(7));
        assert!((&mut waiting).now_or_never().is_none());
        drop(place);
        assert!(waiting.now_or_never().is_some());
    }

    #[tokio::test]
    async fn one_who_was_told_and_goes_away_tells_the_next() {
        let places = Arc::new(Numbers::new(1, 1));
        let place = now(&places, Lane::Attempt).unwrap();
        let mut told = Box::pin(take(&places, Lane::Attempt));
        assert!((&mut told).now_or_never().is_none());
        let next = tokio::spawn({
            let places = Arc::clone(&places);
            async move { drop(take(&places, Lane::Attempt).await) }
        });
        yield_now().await;
        drop(place);
        yield_now().await;
        assert!(!next.is_finished(), "the first has not looked yet");
        drop(told);
        next.await.unwrap();
        assert!(lock(&places.0).attempts.is_empty());
    }

    #[tokio::test]
    async fn what_is_not_fit_is_dropped_and_a_close_ends_every_wait() {
        let places = Arc::new(Numbers::new(2, 2));
        let (one, other) = (now(&places, Lane::Attempt).unwrap(), now(&places, Lane::Attempt).unwrap());
        one.leave(1);
        let place = places.take(Lane::Attempt).await.unwrap();
        let idle = places.take_fit(|number| *number > 1);
        assert_eq!((idle, places.idle()), (None, 0));
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take(Lane::Upkeep).await.is_none() }
        });
        yield_now().await;
        places.close();
        assert!(waiting.await.unwrap());
        other.leave(2);
        drop(place);
        assert_eq!(places.idle(), 0);
        assert!(places.take(Lane::Upkeep).await.is_none());
    }
}
