//! Who waits for which lock on this backend.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use distlock_core::{Claim, Cursor, LockKey, OwnerId};
use tokio::sync::oneshot;

/// Who waits for which lock on this backend.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_key: HashMap<LockKey, Vec<Entry>>,
    last_id: u64,
    /// Whether somebody came since the last look.
    any_new: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    owner: OwnerId,
    /// The token of the hold that was in the way; 0 for a claim in the queue.
    cursor: u64,
    wake: oneshot::Sender<bool>,
}

impl Entry {
    fn is_meant_by(&self, seen: Seen) -> bool {
        let is_its_turn = seen.is_free && seen.head.is_none_or(|head| head == self.owner);
        let is_outdated = self.cursor != 0 && self.cursor != seen.token;
        is_its_turn || is_outdated
    }
}

/// What a look found out about one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) is_free: bool,
    /// The highest token granted so far.
    pub(super) token: u64,
    /// Who is first in the queue.
    pub(super) head: Option<OwnerId>,
}

impl Watchers {
    /// Adds a waiter; `None` after [`Watchers::close`].
    pub(super) fn add(&self, claim: &Claim, cursor: Cursor) -> Option<Watcher<'_>> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        state.last_id += 1;
        state.any_new = true;
        let id = state.last_id;
        let (wake, woken) = oneshot::channel();
        let entry = Entry { id, owner: claim.owner, cursor: cursor.0, wake };
        state.by_key.entry(claim.key.clone()).or_default().push(entry);
        Some(Watcher { watchers: self, key: claim.key.clone(), id, woken })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().by_key.is_empty()
    }

    /// Whether somebody came since this was asked last.
    pub(super) fn take_new(&self) -> bool {
        std::mem::take(&mut self.state().any_new)
    }

    pub(super) fn keys(&self) -> Vec<LockKey> {
        self.state().by_key.keys().cloned().collect()
    }

    /// Wakes whoever can make use of what was seen: the first in the queue, or all if there is no
    /// queue, when the lock is free; and outside the queue who saw an earlier hold.
    pub(super) fn wake_by(&self, key: &LockKey, seen: Seen) {
        let mut state = self.state();
        let Some(entries) = state.by_key.get_mut(key) else { return };
        for entry in entries.extract_if(.., |entry| entry.is_meant_by(seen)) {
            // Whoever stopped waiting meanwhile needs no waking.
            let _ = entry.wake.send(true);
        }
        if entries.is_empty() {
            state.by_key.remove(key);
        }
    }

    /// Wakes everybody, and takes nobody any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        for entry in state.by_key.drain().flat_map(|(_, entries)| entries) {
            let _ = entry.wake.send(false);
        }
    }

    fn remove(&self, key: &LockKey, id: u64) {
        let mut state = self.state();
        if let Some(entries) = state.by_key.get_mut(key) {
            entries.retain(|entry| entry.id != id);
            if entries.is_empty() {
                state.by_key.remove(key);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One waiter's place; dropping it takes the waiter out.
pub(super) struct Watcher<'a> {
    watchers: &'a Watchers,
    key: LockKey,
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
        self.watchers.remove(&self.key, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(key: &str) -> Claim {
        Claim::mint(LockKey::new(key).unwrap())
    }

    #[tokio::test]
    async fn only_the_head_of_the_queue_is_woken() {
        let watchers = Watchers::default();
        let (first, second) = (claim("a"), claim("a"));
        let waits = watchers.add(&first, Cursor(0)).unwrap();
        let other = watchers.add(&second, Cursor(0)).unwrap();
        watchers.wake_by(&first.key, Seen { is_free: false, token: 9, head: Some(second.owner) });
        watchers.wake_by(&first.key, Seen { is_free: true, token: 9, head: Some(first.owner) });
        assert!(waits.woken().await);
        assert!(!watchers.is_empty());
        watchers.wake_by(&first.key, Seen { is_free: true, token: 9, head: None });
        assert!(other.woken().await);
        assert!(watchers.is_empty());
    }

    #[tokio::test]
    async fn outside_the_queue_a_later_token_wakes() {
        let watchers = Watchers::default();
        let claim = claim("a");
        let waits = watchers.add(&claim, Cursor(7)).unwrap();
        watchers.wake_by(&claim.key, Seen { is_free: false, token: 7, head: None });
        watchers.wake_by(&claim.key, Seen { is_free: false, token: 8, head: None });
        assert!(waits.woken().await);
    }

    #[tokio::test]
    async fn dropped_and_closed_waiters_leave_nothing() {
        let watchers = Watchers::default();
        drop(watchers.add(&claim("a"), Cursor(0)));
        assert!(watchers.is_empty());
        let claim = claim("b");
        let waits = watchers.add(&claim, Cursor(0)).unwrap();
        watchers.close();
        assert!(!waits.woken().await);
        assert!(watchers.add(&claim, Cursor(0)).is_none());
    }
}
