//! A held lock whose calls block.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::thread::ClientThread;
use super::view::GuardView;
use crate::clock::Instant;
use crate::error::Result;
use crate::fencing::FencingToken;
use crate::guard;
use crate::held::LockState;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::outcome::{LostReason, Release};
use crate::owner::OwnerId;

/// A held lock. The client's thread renews it while the guard lives, whatever the other threads do.
///
/// **What drop does and does not do:** dropping the guard, on any thread, inside an async runtime too, stops renewal at once
/// and hands the release to the client's thread. It does not wait for the release and can't report its outcome. Call
/// [`LockGuard::unlock`] to know, and [`LockClient::shutdown`](super::LockClient::shutdown) before the program ends.
///
/// A guard does not stop the code it protects: ask [`LockGuard::is_valid`] between its steps, and pass
/// [`LockGuard::token`] to what you write to.
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct LockGuard {
    // Dropped in this order: the release is handed over while the thread still runs.
    guard: guard::LockGuard,
    thread: Arc<ClientThread>,
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("blocking::LockGuard").field(&self.guard).finish()
    }
}

impl LockGuard {
    pub(super) const fn new(guard: guard::LockGuard, thread: Arc<ClientThread>) -> Self {
        Self { guard, thread }
    }

    /// Fails once the lock is lost, by the clock at this call.
    pub(super) fn require_held(&self) -> Result<()> {
        self.guard.require_held()
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.guard.key()
    }

    /// The attempt that holds it, unique to this guard.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.guard.owner()
    }

    /// The grant's fencing token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// The lifetime the store gave, after rounding and clamping.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.guard.ttl()
    }

    /// Until when the lock may be relied on unless it is renewed.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.guard.valid_until()
    }

    /// How long the lock may still be relied on unless it is renewed; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// How the lock stands now, computed from the clock at this call.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.guard.state()
    }

    /// Whether the lock may be relied on at this very moment. Never blocks and asks nobody.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guard.is_valid()
    }

    /// A read-only view for other threads. It keeps nothing alive: when the guard is gone, the view says so.
    #[must_use]
    pub fn view(&self) -> GuardView {
        GuardView::new(self.guard.view(), Arc::downgrade(&self.thread))
    }

    /// Blocks until the lock is lost: at the latest until its validity ends, whether or not the store says anything.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn lost(&self) -> LostReason {
        self.thread.block_on(self.guard.lost())
    }

    /// As [`LockGuard::lost`], for at most `limit`; `None` if the lock is still held then.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn lost_within(&self, limit: Duration) -> Option<LostReason> {
        self.thread.block_for(limit, self.guard.lost())
    }

    /// Blocks until the state is another than `from`. A loss is final: from there it returns at once.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn state_changed(&self, from: LockState) -> LockState {
        self.view().state_changed(from)
    }

    /// Renews the lease now, for the whole ttl. The client's thread does that by itself unless the options say
    /// [`RenewPolicy::Manual`](crate::RenewPolicy::Manual).
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if it is lost; otherwise the store's error, after which the lock stands
    /// as before.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn renew(&self) -> Result<()> {
        self.thread.block_on(self.guard.renew())
    }

    /// Gives the lock back and says whether it was still held.
    ///
    /// # Errors
    /// The store's error. The client's thread goes on releasing; until it succeeds the lock blocks
    /// others for at most its ttl.
    ///
    /// # Panics
    /// On a thread that drives async tasks; the lock is released all the same.
    #[track_caller]
    pub fn unlock(self) -> Result<Release> {
        let Self { guard, thread } = self;
        thread.block_on(guard.unlock())
    }

    /// Takes the lease out of the guard: neither renewed nor released by this client any more. Pass
    /// it to [`LockClient::adopt`](super::LockClient::adopt), here or in another process, before it runs out. Does not block.
    #[must_use = "the lock stays taken until the lease is adopted and released, or runs out"]
    pub fn into_lease(self) -> Lease {
        self.guard.into_lease()
    }
}
