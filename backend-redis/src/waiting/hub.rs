//! Who waits for which lock on this backend.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use distlock_core::{Claim, LockKey, OwnerId};
use tokio::sync::{oneshot, watch};

use super::log::Log;
use super::message::Addressee;

/// How many claims are remembered to have waited. One that is forgotten costs a command more.
const WAITED: usize = 4096;

/// Who waits for which lock on this backend.
#[derive(Debug)]
pub(super) struct Hub {
    state: Mutex<State>,
    is_connected: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    log: Log,
    by_key: HashMap<LockKey, Vec<Entry>>,
    last_id: u64,
    /// Who waited and may try again, and when that was noted.
    waited: HashMap<OwnerId, u64>,
    /// The notes, the oldest first; that of somebody who tried again is void.
    notes: VecDeque<(u64, OwnerId)>,
    /// Whether somebody came since this was asked last.
    any_new: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    owner: OwnerId,
    wake: oneshot::Sender<bool>,
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
        Self { state: Mutex::default(), is_connected: watch::Sender::new(false) }
    }
}

impl Hub {
    /// Where the messages stand, if they come, and if the claim queues or has waited before.
    pub(super) fn position_of(&self, owner: OwnerId, queues: bool) -> Option<u64> {
        let mut state = self.state();
        // Asked in any case, since the claim is remembered for one attempt.
        let waits = state.waited.remove(&owner).is_some() || queues;
        (waits && *self.is_connected.borrow()).then(|| state.log.position())
    }

    /// Adds a waiter whose attempt left a mark when the messages stood at `position`, or has left
    /// none yet.
    pub(super) fn join(&self, claim: &Claim, position: Option<u64>) -> Joined<'_> {
        let mut state = self.state();
        if state.is_closed {
            return Joined::Closed;
        }
        let heard = |whom, position| state.log.heard_after(&whom, position);
        if position.is_some_and(|position| {
            heard(Addressee::All(claim.key.clone()), position)
                || heard(Addressee::One(claim.clone()), position)
        }) {
            state.remember(claim.owner);
            return Joined::Outdated;
        }
        state.last_id += 1;
        state.any_new = true;
        let id = state.last_id;
        let (wake, woken) = oneshot::channel();
        state.by_key.entry(claim.key.clone()).or_default().push(Entry { id, owner: claim.owner, wake });
        Joined::Waits(Watcher { hub: self, claim: claim.clone(), id, woken })
    }

    /// A release was announced.
    pub(super) fn released(&self, whom: Addressee) {
        let mut state = self.state();
        for entry in state.take(&whom) {
            // Whoever stopped waiting meanwhile needs no waking.
            let _ = entry.wake.send(true);
        }
        state.log.add(whom);
    }

    /// Messages come from now on.
    pub(super) fn listens(&self) {
        self.state().log.gap();
        self.is_connected.send_replace(true);
    }

    /// Messages don't come any more; everybody had better look for himself.
    pub(super) fn disconnected(&self) {
        self.is_connected.send_replace(false);
        self.state().wake_all(true);
    }

    /// Resolves when messages come.
    pub(super) async fn connected(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_connected.subscribe().wait_for(|is_connected| *is_connected).await;
    }

    /// Whether somebody came since this was asked last, or waits.
    pub(super) fn was_used(&self) -> bool {
        let mut state = self.state();
        std::mem::take(&mut state.any_new) || !state.by_key.is_empty()
    }

    /// Whether nobody waits, or nobody may any more.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.is_closed || state.by_key.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Wakes everybody, and takes nobody any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.wake_all(false);
    }

    fn leave(&self, claim: &Claim, id: u64) {
        let mut state = self.state();
        if let Some(entries) = state.by_key.get_mut(&claim.key) {
            entries.retain(|entry| entry.id != id);
            if entries.is_empty() {
                state.by_key.remove(&claim.key);
            }
        }
        state.remember(claim.owner);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes out whom a message concerns.
    fn take(&mut self, whom: &Addressee) -> Vec<Entry> {
        match whom {
            Addressee::All(key) => self.by_key.remove(key).unwrap_or_default(),
            Addressee::One(claim) => {
                let Some(entries) = self.by_key.get_mut(&claim.key) else { return Vec::new() };
                let taken = entries.extract_if(.., |entry| entry.owner == claim.owner).collect();
                if entries.is_empty() {
                    self.by_key.remove(&claim.key);
                }
                taken
            }
        }
    }

    fn wake_all(&mut self, goes_on: bool) {
        self.log.gap();
        for entry in self.by_key.drain().flat_map(|(_, entries)| entries) {
            let _ = entry.wake.send(goes_on);
        }
    }

    fn remember(&mut self, owner: OwnerId) {
        self.last_id += 1;
        let note = self.last_id;
        self.waited.insert(owner, note);
        self.notes.push_back((note, owner));
        if self.notes.len() > WAITED
            && let Some((note, owner)) = self.notes.pop_front()
            && self.waited.get(&owner) == Some(&note)
        {
            self.waited.remove(&owner);
        }
    }
}

/// One waiter's place; dropping it takes the waiter out.
#[derive(Debug)]
pub(super) struct Watcher<'a> {
    hub: &'a Hub,
    claim: Claim,
    id: u64,
    woken: oneshot::Receiver<bool>,
}

impl Watcher<'_> {
    /// Waits to be woken; false if the backend was closed.
    pub(super) async fn woken(mut self) -> bool {
        (&mut self.woken).await.unwrap_or(false)
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        self.hub.leave(&self.claim, self.id);
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
    fn only_who_waited_leaves_marks_and_nobody_is_remembered_for_ever() {
        let hub = Hub::default();
        hub.listens();
        let a = claim("a");
        assert_eq!(hub.position_of(a.owner, false), None, "a plain try leaves nothing");
        drop(waits(&hub, &a, None));
        assert!(hub.position_of(a.owner, false).is_some());
        assert_eq!(hub.position_of(a.owner, false), None);
        for _ in 0..WAITED + 10 {
            drop(waits(&hub, &claim("a"), None));
        }
        let state = hub.state();
        assert_eq!((state.waited.len(), state.notes.len()), (WAITED, WAITED));
    }

    #[test]
    fn who_waits_over_and_over_stays_known() {
        let hub = Hub::default();
        hub.listens();
        let a = claim("a");
        for _ in 0..2 * WAITED {
            drop(waits(&hub, &a, None));
            assert!(hub.position_of(a.owner, false).is_some());
        }
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
