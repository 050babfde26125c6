//! A view of a held lock for other threads.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use super::thread::ClientThread;
use crate::clock::Instant;
use crate::fencing::FencingToken;
use crate::guard;
use crate::held::LockState;
use crate::key::LockKey;
use crate::outcome::LostReason;
use crate::owner::OwnerId;

/// A read-only view of a held lock. Cheap to clone, and usable from any thread.
#[derive(Clone)]
pub struct GuardView {
    view: guard::GuardView,
    /// While it is there, so may be the guard; afterwards the state is final.
    thread: Weak<ClientThread>,
}

impl fmt::Debug for GuardView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("blocking::GuardView").field(&self.view).finish()
    }
}

impl GuardView {
    pub(super) const fn new(view: guard::GuardView, thread: Weak<ClientThread>) -> Self {
        Self { view, thread }
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.view.key()
    }

    /// The attempt that holds it.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.view.owner()
    }

    /// The grant's fencing token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.view.token()
    }

    /// The lifetime the store gave.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.view.ttl()
    }

    /// Until when the lock may be relied on unless it is renewed.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.view.valid_until()
    }

    /// How long the lock may still be relied on unless it is renewed; zero when it is lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.view.remaining()
    }

    /// How the lock stands now, computed from the clock at this call.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.view.state()
    }

    /// Whether the lock may be relied on at this very moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.view.is_valid()
    }

    /// Blocks until the hold ends: `None` if the lock was given back, or taken out of its guard as a lease.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn lost(&self) -> Option<LostReason> {
        let ended = match self.thread.upgrade() {
            Some(thread) => thread.block_on(ended(&self.view)),
            None => self.state(),
        };
        reason(ended)
    }

    /// As [`GuardView::lost`], for at most `limit`; `None` also if the lock is still held then, which
    /// [`GuardView::state`] tells apart.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn lost_within(&self, limit: Duration) -> Option<LostReason> {
        match self.thread.upgrade() {
            Some(thread) => thread.block_for(limit, ended(&self.view)).and_then(reason),
            None => reason(self.state()),
        }
    }

    /// Blocks until the state is another than `from`. When the hold has ended the state is final: then it is returned
    /// at once, even if it is `from`.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn state_changed(&self, from: LockState) -> LockState {
        match self.thread.upgrade() {
            Some(thread) if from.is_valid() => thread.block_on(self.view.state_changed(from)),
            _ => self.state(),
        }
    }
}

async fn ended(view: &guard::GuardView) -> LockState {
    let mut state = view.state();
    while state.is_valid() {
        state = view.state_changed(state).await;
    }
    state
}

const fn reason(ended: LockState) -> Option<LostReason> {
    match ended {
        LockState::Lost(reason) => Some(reason),
        LockState::Held | LockState::Jeopardy | LockState::Released => None,
    }
}
