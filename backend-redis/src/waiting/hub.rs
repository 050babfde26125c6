//! Who waits for which lock on this backend.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Claim, Heard, Lease, LockKey, LockRequest, OwnerId, Waited, Waiter, Waiters};
use tokio::sync::watch;

use super::message::Addressee;
use super::places::Places;
use super::successor::Successor;

/// Who waits for which lock on this backend.
#[derive(Debug)]
pub(super) struct Hub {
    waiters: Waiters,
    // Locked before the waiters' own lock, never after it.
    state: Mutex<State>,
    is_connected: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    heard: Heard<Addressee>,
    places: Places,
    waited: Waited,
}

/// How a wait begins.
#[derive(Debug)]
pub(super) enum Joined<'a> {
    /// The backend was closed.
    Closed,
    /// Something happened since the attempt.
    Outdated,
    /// The waiter has a place.
    Waits(Watcher<'a>),
}

impl Default for Hub {
    fn default() -> Self {
        Self { waiters: Waiters::new(), state: Mutex::default(), is_connected: watch::Sender::new(false) }
    }
}

impl Hub {
    /// Where the messages stand, if they come, and if the claim queues or has waited before.
    pub(super) fn position_of(&self, owner: OwnerId, queues: bool) -> Option<u64> {
        let mut state = self.state();
        // Asked in any case, since the claim is remembered for one attempt.
        let waits = state.waited.take(owner) || queues;
        (waits && *self.is_connected.borrow()).then(|| state.heard.position())
    }

    /// Adds a waiter whose attempt left a mark when the messages stood at `position`, or has left
    /// none yet.
    pub(super) fn join(&self, claim: &Claim, position: Option<u64>) -> Joined<'_> {
        // Held until the waiter has its place, so that no message comes between the two.
        let mut state = self.state();
        if state.places.is_granted(claim.owner) && !self.is_closed() {
            return Joined::Outdated;
        }
        let heard = |whom, position| state.heard.heard_after(&whom, position);
        if position.is_some_and(|position| {
            heard(Addressee::All(claim.key.clone()), position)
                || heard(Addressee::One(claim.clone()), position)
        }) && !self.is_closed()
        {
            state.waited.remember(claim.owner);
            return Joined::Outdated;
        }
        match self.waiters.join(claim, ()) {
            Some(waiter) => Joined::Waits(Watcher { hub: self, owner: claim.owner, waiter }),
            None => Joined::Closed,
        }
    }

    /// A release was announced.
    pub(super) fn released(&self, whom: Addressee) {
        self.state().heard.add(whom.clone());
        match whom {
            Addressee::All(key) => {
                self.waiters.wake(&key, |_, ()| true);
            }
            Addressee::One(claim) => self.wake(&claim),
        }
    }

    /// The store gave the request a place in a queue, or kept it; a grant would last for `ttl`.
    pub(super) fn queues(&self, request: &LockRequest, ttl: Duration) {
        let mut state = self.state();
        state.places.take(request, ttl);
        if state.places.are_many() {
            state.places.keep(&self.waiters.owners());
        }
    }

    /// Who of those who wait here for `key` queued first, beside `owner`.
    pub(super) fn successor(&self, key: &LockKey, owner: OwnerId) -> Option<Successor<'_>> {
        let owners = self.waiters.owners_of(key).into_iter().filter(|other| *other != owner);
        let state = self.state();
        let (request, ttl) = state.places.first_of(owners)?;
        Some(Successor::new(self, request.clone(), ttl))
    }

    /// The place is given up.
    pub(super) fn leaves_queue(&self, owner: OwnerId) {
        self.state().places.leave(owner);
    }

    /// Picks up what was granted.
    pub(super) fn pick_up(&self, owner: OwnerId) -> Option<Lease> {
        self.state().places.pick_up(owner)
    }

    /// A waiter has the lock, if it still waits.
    pub(super) fn granted(&self, lease: Lease) {
        let claim = lease.claim.clone();
        if self.state().places.grant(lease) {
            self.wake(&claim);
        }
    }

    /// Messages come from now on.
    pub(super) fn listens(&self) {
        self.state().heard.gap();
        self.is_connected.send_replace(true);
    }

    /// Messages don't come any more; everybody had better look for himself.
    pub(super) fn disconnected(&self) {
        self.is_connected.send_replace(false);
        self.state().heard.gap();
        self.waiters.wake_all();
    }

    /// Resolves when messages come.
    pub(super) async fn connected(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_connected.subscribe().wait_for(|is_connected| *is_connected).await;
    }

    /// Whether somebody came since this was asked last, or waits.
    pub(super) fn was_used(&self) -> bool {
        self.waiters.take_new() || !self.waiters.is_empty()
    }

    /// Whether nobody waits, or nobody may any more.
    pub(super) fn is_idle(&self) -> bool {
        self.waiters.is_closed() || self.waiters.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.waiters.is_closed()
    }

    /// Ends every wait, and takes nobody any more.
    pub(super) fn close(&self) {
        self.waiters.close();
    }

    fn wake(&self, claim: &Claim) {
        self.waiters.wake(&claim.key, |owner, ()| owner == claim.owner);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One waiter's place; dropping it takes the waiter out and remembers that he waited.
#[derive(Debug)]
pub(super) struct Watcher<'a> {
    hub: &'a Hub,
    owner: OwnerId,
    waiter: Waiter<'a>,
}

impl Watcher<'_> {
    /// Waits to be woken; false if the backend was closed.
    pub(super) async fn woken(mut self) -> bool {
        self.waiter.woken().await
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        self.hub.state().waited.remember(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(key: &str) -> Claim {
        Claim::mint(LockKey::new(key).unwrap())
    }

    fn waits<'a>(hub: &'a Hub, claim: &Claim, position: Option<u64>) -> Watcher<'a> {
        match hub.join(claim, position) {
            Joined::Waits(watcher) => watcher,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_message_wakes_those_it_concerns() {
        let hub = Hub::default();
        let (a, b) = (claim("a"), claim("b"));
        let watcher = waits(&hub, &a, None);
        let other = waits(&hub, &b, None);
        hub.released(Addressee::All(a.key.clone()));
        assert!(watcher.woken().await);
        assert!(!hub.is_idle());
        hub.disconnected();
        assert!(other.woken().await, "whoever may have missed something looks for himself");
        assert!(hub.is_idle());
    }

    #[tokio::test]
    async fn a_message_between_answer_and_wait_is_not_missed() {
        let hub = Hub::default();
        let a = claim("a");
        assert_eq!(hub.position_of(a.owner, true), None, "nothing is heard yet");
        hub.listens();
        let position = hub.position_of(a.owner, true);
        drop(waits(&hub, &a, position));
        hub.released(Addressee::All(a.key.clone()));
        assert!(matches!(hub.join(&a, position), Joined::Outdated));
    }

    #[tokio::test]
    async fn a_message_to_one_wakes_nobody_else() {
        let hub = Hub::default();
        hub.listens();
        let (first, second) = (claim("a"), claim("a"));
        let position = hub.position_of(first.owner, true);
        let (watcher, other) = (waits(&hub, &first, position), waits(&hub, &second, position));
        hub.released(Addressee::One(first.clone()));
        assert!(watcher.woken().await);
        drop(other);
        assert!(matches!(hub.join(&first, position), Joined::Outdated), "it is not missed either");
        drop(waits(&hub, &second, position));
        assert!(hub.is_idle());
    }

    #[test]
    fn only_who_waited_leaves_marks() {
        let hub = Hub::default();
        hub.listens();
        let a = claim("a");
        assert_eq!(hub.position_of(a.owner, false), None, "a plain try leaves nothing");
        drop(waits(&hub, &a, None));
        assert!(hub.position_of(a.owner, false).is_some());
        assert_eq!(hub.position_of(a.owner, false), None);
    }

    #[tokio::test]
    async fn closing_ends_every_wait() {
        let hub = Hub::default();
        let a = claim("a");
        let watcher = waits(&hub, &a, None);
        hub.close();
        assert!(!watcher.woken().await);
        assert!(matches!(hub.join(&a, None), Joined::Closed));
    }
}
