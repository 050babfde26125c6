//! Who waits for which lock in this process.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::{Claim, LockKey, OwnerId};

/// Who waits for which lock in this process, for a backend that hears of releases in one place (a
/// subscription, a listener, a watch, a poll) and wakes those whom one concerns.
///
/// `T` is what the backend notes of each waiter, such as the cursor of the busy answer that it has seen.
pub struct Waiters<T = ()>(Mutex<State<T>>);

struct State<T> {
    by_key: HashMap<LockKey, Vec<Entry<T>>>,
    last_id: u64,
    any_new: bool,
    is_closed: bool,
}

struct Entry<T> {
    id: u64,
    owner: OwnerId,
    note: T,
    wake: oneshot::Sender<bool>,
}

impl<T> Waiters<T> {
    /// Nobody waits yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Mutex::new(State { by_key: HashMap::new(), last_id: 0, any_new: false, is_closed: false }))
    }

    /// Adds a waiter; `None` after [`Waiters::close`].
    pub fn join(&self, claim: &Claim, note: T) -> Option<Waiter<'_, T>> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        state.last_id += 1;
        state.any_new = true;
        let id = state.last_id;
        let (wake, woken) = oneshot::channel();
        state.by_key.entry(claim.key.clone()).or_default().push(Entry { id, owner: claim.owner, note, wake });
        Some(Waiter { waiters: self, key: claim.key.clone(), id, woken })
    }

    /// Wakes those who wait for `key` and of whom `is_meant` says true, by owner and note; says how many.
    /// `is_meant` must not call this registry.
    pub fn wake(&self, key: &LockKey, mut is_meant: impl FnMut(OwnerId, &T) -> bool) -> usize {
        let mut state = self.state();
        let Some(entries) = state.by_key.get_mut(key) else { return 0 };
        let mut count = 0;
        for entry in entries.extract_if(.., |entry| is_meant(entry.owner, &entry.note)) {
            // Whoever stopped waiting meanwhile needs no waking.
            count += usize::from(entry.wake.send(true).is_ok());
        }
        if entries.is_empty() {
            state.by_key.remove(key);
        }
        count
    }

    /// Wakes everybody, since something may have been missed.
    pub fn wake_all(&self) {
        self.state().wake_all(true);
    }

    /// Ends every wait, and takes nobody any more.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.wake_all(false);
    }

    /// Whether [`Waiters::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state().by_key.is_empty()
    }

    /// Whether somebody came since this was asked last.
    pub fn take_new(&self) -> bool {
        std::mem::take(&mut self.state().any_new)
    }

    /// What is waited for.
    #[must_use]
    pub fn keys(&self) -> Vec<LockKey> {
        self.state().by_key.keys().cloned().collect()
    }

    /// Who waits for `key`, those who came first first.
    #[must_use]
    pub fn owners_of(&self, key: &LockKey) -> Vec<OwnerId> {
        self.state().by_key.get(key).into_iter().flatten().map(|entry| entry.owner).collect()
    }

    /// All who wait.
    #[must_use]
    pub fn owners(&self) -> HashSet<OwnerId> {
        self.state().by_key.values().flatten().map(|entry| entry.owner).collect()
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

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Waiters<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let waiters: usize = state.by_key.values().map(Vec::len).sum();
        f.debug_struct("Waiters")
            .field("keys", &state.by_key.len())
            .field("waiters", &waiters)
            .field("is_closed", &state.is_closed)
            .finish()
    }
}

impl<T> State<T> {
    fn wake_all(&mut self, goes_on: bool) {
        for entry in self.by_key.drain().flat_map(|(_, entries)| entries) {
            let _ = entry.wake.send(goes_on);
        }
    }
}

/// One waiter's place; dropping it takes the waiter out.
pub struct Waiter<'a, T = ()> {
    waiters: &'a Waiters<T>,
    key: LockKey,
    id: u64,
    woken: oneshot::Receiver<bool>,
}

impl<T> Waiter<'_, T> {
    /// Waits to be woken; false if the registry was closed.
    ///
    /// # Cancel safety
    /// May be polled through a reference and dropped at any time; a wake-up is kept until it is seen.
    pub async fn woken(&mut self) -> bool {
        (&mut self.woken).await.unwrap_or(false)
    }
}

impl<T> Drop for Waiter<'_, T> {
    fn drop(&mut self) {
        self.waiters.remove(&self.key, self.id);
    }
}

impl<T> fmt::Debug for Waiter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(key: &str) -> Claim {
        Claim::mint(LockKey::new(key).unwrap())
    }

    #[tokio::test]
    async fn only_those_who_are_meant_are_woken() {
        let waiters = Waiters::new();
        let (first, second, other) = (claim("a"), claim("a"), claim("b"));
        let mut waits = waiters.join(&first, 7).unwrap();
        let mut waits_too = waiters.join(&second, 8).unwrap();
        let _elsewhere = waiters.join(&other, 7).unwrap();
        assert_eq!(waiters.owners_of(&first.key), [first.owner, second.owner]);
        assert_eq!(waiters.owners(), [first.owner, second.owner, other.owner].into());
        assert_eq!(waiters.wake(&first.key, |_, note| *note == 9), 0);
        assert_eq!(waiters.wake(&first.key, |owner, note| owner == first.owner && *note == 7), 1);
        assert!(waits.woken().await);
        assert_eq!(waiters.wake(&first.key, |_, _| true), 1);
        assert!(waits_too.woken().await);
        assert_eq!(waiters.keys(), std::slice::from_ref(&other.key));
        waiters.wake_all();
        assert!(waiters.is_empty());
    }

    #[tokio::test]
    async fn dropped_and_closed_waiters_leave_nothing() {
        let waiters = Waiters::new();
        drop(waiters.join(&claim("a"), ()));
        assert!(waiters.is_empty() && waiters.take_new() && !waiters.take_new());
        let claim = claim("b");
        let mut waits = waiters.join(&claim, ()).unwrap();
        waiters.close();
        assert!(!waits.woken().await);
        assert!(waiters.is_closed() && waiters.join(&claim, ()).is_none());
    }
}
