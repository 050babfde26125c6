//! A lock that is held, and all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use distlock_core::{Claim, FencingToken, Instant, OwnerId};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::dialect::SessionDialect;
use super::link::Link;
use super::slot::Slot;
use super::times::Times;

/// A lock that is held, and the session that holds it.
pub(super) struct Held<D: SessionDialect> {
    pub(super) claim: Claim,
    pub(super) token: FencingToken,
    /// The lock's name at the server.
    pub(super) name: Vec<u8>,
    pub(super) slot: Arc<Slot<D>>,
    /// The task that listens for the session's end.
    listening: OnceLock<AbortHandle>,
    pub(super) times: Arc<Times>,
    over: watch::Sender<bool>,
}

impl<D: SessionDialect> Held<D> {
    pub(super) fn new(
        claim: Claim,
        token: FencingToken,
        name: Vec<u8>,
        link: Link<D>,
        ttl: Duration,
        sent: Instant,
    ) -> Self {
        Self {
            claim,
            token,
            name,
            slot: Arc::new(Slot::new(link)),
            listening: OnceLock::new(),
            times: Arc::new(Times::new(ttl, sent)),
            over: watch::Sender::new(false),
        }
    }

    pub(super) fn is_listened_for(&self) -> bool {
        self.listening.get().is_some()
    }

    /// This task listens for the session's end, and does not outlast the lock.
    pub(super) fn listened_for_by(&self, task: AbortHandle) {
        if let Err(second) = self.listening.set(task) {
            second.abort();
        }
    }

    /// Tells those who watch for its loss.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Resolves when its session is over.
    pub(super) async fn ended(&self) {
        // The sender lives as long as this.
        let _ = self.over.subscribe().wait_for(|is_over| *is_over).await;
    }
}

impl<D: SessionDialect> Drop for Held<D> {
    fn drop(&mut self) {
        if let Some(task) = self.listening.get() {
            task.abort();
        }
    }
}

/// All locks that are held through one backend, by owner.
pub(super) struct AllHeld<D: SessionDialect>(Mutex<HashMap<OwnerId, Arc<Held<D>>>>);

impl<D: SessionDialect> AllHeld<D> {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(super) fn of(&self, claim: &Claim) -> Option<Arc<Held<D>>> {
        self.all().get(&claim.owner).filter(|held| held.claim.key == claim.key).map(Arc::clone)
    }

    pub(super) fn insert(&self, held: Arc<Held<D>>) {
        self.all().insert(held.claim.owner, held);
    }

    /// Removes this very one, and says whether it was there.
    pub(super) fn remove(&self, held: &Arc<Held<D>>) -> bool {
        let mut all = self.all();
        let is_there = all.get(&held.claim.owner).is_some_and(|found| Arc::ptr_eq(found, held));
        if is_there {
            all.remove(&held.claim.owner);
        }
        is_there
    }

    pub(super) fn list(&self) -> Vec<Arc<Held<D>>> {
        self.all().values().map(Arc::clone).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<OwnerId, Arc<Held<D>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
