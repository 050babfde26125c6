//! Who waits for which lock on this backend, and what was announced of late.

use std::sync::{Mutex, MutexGuard, PoisonError};

use distlock_core::{Claim, Heard, LockKey, OwnerId, Waited, Waiter, Waiters};
use tokio::sync::watch;

/// Who waits for which lock on this backend, and what was announced of late.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) waiters: Waiters,
    // Locked before the waiters' own lock, never after it.
    state: Mutex<State>,
    is_connected: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    heard: Heard<LockKey>,
    waited: Waited,
}

/// How a wait begins.
#[derive(Debug)]
pub(super) enum Joined<'a> {
    /// The backend was closed.
    Closed,
    /// Something was announced since the attempt.
    Outdated,
    /// The waiter has a place.
    Waits(Place<'a>),
}

impl Default for Hub {
    fn default() -> Self {
        Self { waiters: Waiters::new(), state: Mutex::default(), is_connected: watch::Sender::new(false) }
    }
}

impl Hub {
    /// Where the announcements stand, if they come and the claim has waited before. It is remembered for
    /// one attempt.
    pub(super) fn position_of(&self, owner: OwnerId) -> Option<u64> {
        let mut state = self.state();
        let has_waited = state.waited.take(owner);
        (has_waited && *self.is_connected.borrow()).then(|| state.heard.position())
    }

    /// Adds a waiter whose attempt left a mark when the announcements stood at `position`, or has left
    /// none yet.
    pub(super) fn join(&self, claim: &Claim, position: Option<u64>) -> Joined<'_> {
        // Held until the waiter has its place, so that nothing is announced between the two.
        let mut state = self.state();
        let is_outdated = position.is_some_and(|position| state.heard.heard_after(&claim.key, position));
        if is_outdated && !self.waiters.is_closed() {
            state.waited.remember(claim.owner);
            return Joined::Outdated;
        }
        match self.waiters.join(claim, ()) {
            Some(waiter) => Joined::Waits(Place { hub: self, owner: claim.owner, waiter }),
            None => Joined::Closed,
        }
    }

    /// A release was announced.
    pub(super) fn released(&self, key: &LockKey) {
        self.state().heard.add(key.clone());
        self.waiters.wake(key, |_, ()| true);
    }

    /// Announcements come from now on.
    pub(super) fn listens(&self) {
        self.state().heard.gap();
        self.is_connected.send_replace(true);
    }

    /// Announcements don't come any more; everybody had better look for himself.
    pub(super) fn disconnected(&self) {
        self.is_connected.send_replace(false);
        self.state().heard.gap();
        self.waiters.wake_all();
    }

    /// Resolves when announcements come.
    pub(super) async fn connected(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_connected.subscribe().wait_for(|is_connected| *is_connected).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One waiter's place; dropping it takes the waiter out and remembers that he waited.
#[derive(Debug)]
pub(super) struct Place<'a> {
    hub: &'a Hub,
    owner: OwnerId,
    waiter: Waiter<'a>,
}

impl Place<'_> {
    /// Waits to be woken; false if the backend was closed.
    pub(super) async fn woken(&mut self) -> bool {
        self.waiter.woken().await
    }
}

impl Drop for Place<'_> {
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

    fn waits<'a>(hub: &'a Hub, claim: &Claim, position: Option<u64>) -> Place<'a> {
        match hub.join(claim, position) {
            Joined::Waits(place) => place,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_announcement_wakes_those_it_concerns_and_a_lost_connection_all() {
        let hub = Hub::default();
        let (a, b) = (claim("a"), claim("b"));
        let (mut first, mut second) = (waits(&hub, &a, None), waits(&hub, &b, None));
        hub.released(&a.key);
        assert!(first.woken().await);
        assert!(!hub.waiters.is_empty());
        hub.disconnected();
        assert!(second.woken().await);
    }

    #[tokio::test]
    async fn one_between_answer_and_wait_is_not_missed() {
        let hub = Hub::default();
        let a = claim("a");
        drop(waits(&hub, &a, None));
        assert_eq!(hub.position_of(a.owner), None, "nothing is heard yet");
        hub.listens();
        drop(waits(&hub, &a, None));
        let position = hub.position_of(a.owner);
        assert!(position.is_some() && hub.position_of(a.owner).is_none());
        hub.released(&a.key);
        assert!(matches!(hub.join(&a, position), Joined::Outdated));
    }
}
