//! A held lock in the hands of its holder.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::client::{ClientInner, Turn};
use crate::clock::Instant;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fencing::FencingToken;
use crate::held::{Held, LockState};
use crate::key::LockKey;
use crate::lease::Lease;
use crate::outcome::{LostReason, Release, Renewal};
use crate::owner::OwnerId;
use crate::releaser::Sweep;
use crate::waiting::bounded;

/// A held lock. The client renews it in the background while the guard lives.
///
/// **What drop does and does not do:** dropping the guard stops renewal at once and hands the release
/// to the client's background task. It does not wait for the release, can't report its outcome, and
/// outside a running runtime leaves the lock to its ttl. Call [`LockGuard::unlock`] to know, and
/// [`LockClient::shutdown`](crate::LockClient::shutdown) before the program ends.
///
/// A guard does not stop the code it protects: watch [`LockGuard::lost`], or let
/// [`LockGuard::run`] do it, and pass [`LockGuard::token`] to what you write to.
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct LockGuard {
    // Taken by unlock, into_lease and drop.
    held: Option<Arc<Held>>,
    view: GuardView,
    client: Arc<ClientInner>,
}

impl LockGuard {
    pub(crate) fn new(held: Arc<Held>, client: Arc<ClientInner>) -> Self {
        client.watchdog.watch(&held);
        Self { view: GuardView { held: Arc::clone(&held) }, held: Some(held), client }
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.view.key()
    }

    /// The attempt that holds it, unique to this guard.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.view.owner()
    }

    /// The grant's fencing token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.view.token()
    }

    /// The lifetime the store gave, after rounding and clamping.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.view.ttl()
    }

    /// Until when the lock may be relied on unless it is renewed.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.view.valid_until()
    }

    /// How long the lock may still be relied on unless it is renewed; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.view.remaining()
    }

    /// How the lock stands now, computed from the clock at this call.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.view.state()
    }

    /// Whether the lock may be relied on at this very moment. Never blocks and asks nobody.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.view.is_valid()
    }

    /// Resolves when the lock is lost: at the latest when its validity ends, whether or not the
    /// store says anything.
    ///
    /// # Cancel safety
    /// May be dropped at any point and called again.
    pub async fn lost(&self) -> LostReason {
        self.view.lost().await
    }

    /// Resolves when the state is another than `from`.
    ///
    /// # Cancel safety
    /// May be dropped at any point and called again.
    pub async fn state_changed(&self, from: LockState) -> LockState {
        self.view.state_changed(from).await
    }

    /// A read-only view for other tasks. It keeps nothing alive: when the guard is gone, the view
    /// says so.
    #[must_use]
    pub fn view(&self) -> GuardView {
        self.view.clone()
    }

    /// Renews the lease now, for the whole ttl.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if it is lost; otherwise the store's error, after which the lock stands
    /// as before.
    ///
    /// # Cancel safety
    /// May be dropped at any point: the lease may or may not have been prolonged.
    pub async fn renew(&self) -> Result<()> {
        let held = &self.view.held;
        if let LockState::Lost(reason) = held.state() {
            return Err(self.lost_error(reason).in_operation(Operation::Renew));
        }
        let lease = held.lease_now();
        let renewal = bounded(
            &self.client.timers,
            held.timing().op_timeout,
            self.client.backend.renew(&lease, lease.ttl),
        )
        .await;
        match renewal.map_err(|error| self.client.context(error, Operation::Renew, &lease.claim.key)) {
            Ok(Renewal::Renewed { valid_until }) if held.extend(valid_until) => Ok(()),
            Ok(Renewal::Renewed { .. }) => {
                Err(self.lost_error(LostReason::Expired).in_operation(Operation::Renew))
            }
            Ok(Renewal::Lost(reason)) => {
                held.lose(reason);
                Err(self.lost_error(reason).in_operation(Operation::Renew))
            }
            Err(error) => {
                held.note_trouble(error.kind());
                Err(error)
            }
        }
    }

    /// Gives the lock back and says whether it was still held.
    ///
    /// A lock that is known to be lost answers [`Release::NotHeld`] at once, and its record is swept
    /// in the background.
    ///
    /// # Errors
    /// The store's error. The background task goes on releasing; until it succeeds the lock blocks
    /// others for at most its ttl.
    ///
    /// # Cancel safety
    /// May be dropped at any point: the release goes on in the background.
    pub async fn unlock(mut self) -> Result<Release> {
        let Some(held) = self.held.take() else {
            return Ok(Release::NotHeld(LostReason::Expired));
        };
        self.client.watchdog.forget(&held);
        if let Err(reason) = held.release() {
            if !held.is_shut_down() {
                self.client.releaser.push(Sweep::of(&held, None));
            }
            return Ok(Release::NotHeld(reason));
        }
        let client = Arc::clone(&self.client);
        client.release(&held).await
    }

    /// Takes the lease out of the guard: neither renewed nor released by this client any more. Pass
    /// it to [`LockClient::adopt`](crate::LockClient::adopt), here or in another process, before it
    /// runs out.
    #[must_use = "the lock stays taken until the lease is adopted and released, or runs out"]
    pub fn into_lease(mut self) -> Lease {
        let held = self.held.take().unwrap_or_else(|| Arc::clone(&self.view.held));
        self.client.watchdog.forget(&held);
        let lease = held.lease_now();
        held.detach();
        drop(held.take_turn());
        lease
    }

    /// Runs `work` and drops it as soon as the lock is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lock was lost before `work` was done. What `work` did up to then
    /// stays done.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`; the guard stays.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = pin!(work);
        let mut lost = pin!(self.lost());
        poll_fn(|context| {
            // By the clock first: after a pause the background task may not have run yet.
            self.require_held()?;
            if let Poll::Ready(reason) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Fails once the lock is lost, by the clock at this call.
    pub(crate) fn require_held(&self) -> Result<()> {
        match self.state() {
            LockState::Lost(reason) => Err(self.lost_error(reason)),
            _ => Ok(()),
        }
    }

    fn lost_error(&self, reason: LostReason) -> Error {
        Error::new(ErrorKind::Lost, format!("the lock is lost: {reason}"))
            .on_backend(self.client.backend.info().name)
            .for_key(self.key())
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.describe(f.debug_struct("LockGuard"))
    }
}

impl fmt::Debug for GuardView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f.debug_struct("GuardView"))
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.client.watchdog.forget(&held);
            let turn: Option<Turn> = held.take_turn();
            held.abandon();
            if !held.is_shut_down() {
                self.client.releaser.push(Sweep::of(&held, turn));
            }
        }
    }
}

/// A read-only view of a held lock. Cheap to clone, and usable from any task or thread.
#[derive(Clone)]
pub struct GuardView {
    held: Arc<Held>,
}

impl GuardView {
    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.held.lease().claim.key
    }

    /// The attempt that holds it.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.held.lease().claim.owner
    }

    /// The grant's fencing token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.held.lease().token
    }

    /// The lifetime the store gave.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.held.lease().ttl
    }

    /// Until when the lock may be relied on unless it is renewed.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.held.valid_until()
    }

    /// How long the lock may still be relied on unless it is renewed; zero when it is lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// How the lock stands now, computed from the clock at this call.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.held.state()
    }

    /// Whether the lock may be relied on at this very moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state().is_valid()
    }

    /// Resolves when the lock is lost. It never resolves for a lock that was given back; see
    /// [`GuardView::state_changed`] for that.
    ///
    /// # Cancel safety
    /// May be dropped at any point and called again.
    pub async fn lost(&self) -> LostReason {
        self.held.lost().await
    }

    /// Resolves when the state is another than `from`.
    ///
    /// # Cancel safety
    /// May be dropped at any point and called again.
    pub async fn state_changed(&self, from: LockState) -> LockState {
        self.held.state_changed(from).await
    }

    fn describe(&self, mut out: fmt::DebugStruct<'_, '_>) -> fmt::Result {
        out.field("key", self.key())
            .field("token", &self.token())
            .field("state", &self.state())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
