//! What guard, views and watchdog know of one held lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::Claim;
use crate::client::Turn;
use crate::clock::Instant;
use crate::error::ErrorKind;
use crate::events::LockChange;
use crate::lease::Lease;
use crate::metadata::Metadata;
use crate::observer::Observer;
use crate::options::Timing;
use crate::outcome::{Busy, Holder, LostReason};

/// How a held lock stands, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum LockState {
    /// Held, and the store confirmed it recently.
    Held,
    /// Still held, but the store has not confirmed it for half the ttl: prepare to stop.
    Jeopardy,
    /// Not held any more.
    Lost(LostReason),
    /// Given back by its guard.
    Released,
}

impl LockState {
    /// Whether the lock may still be relied on.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        matches!(self, Self::Held | Self::Jeopardy)
    }
}

/// The shared state of one grant. Everything is computed from the clock at the moment of asking; a
/// stored flag would still say "held" after a pause.
#[derive(Debug)]
pub(crate) struct Held {
    lease: Lease,
    timing: Timing,
    observer: Arc<Observer>,
    metadata: Metadata,
    valid_until: AtomicU64,
    end: OnceLock<End>,
    changed: Notify,
    turn: Mutex<Option<Turn>>,
    trouble: Mutex<Option<ErrorKind>>,
    doubtful: bool,
    /// The watchdog's place for this lock; written only under the schedule's lock.
    pub(crate) slot: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Released,
    Detached,
    Lost(LostReason),
}

impl Held {
    pub(crate) fn new(
        lease: Lease,
        timing: Timing,
        metadata: Metadata,
        observer: Arc<Observer>,
        doubtful: bool,
    ) -> Self {
        Self {
            valid_until: AtomicU64::new(lease.valid_until.as_nanos()),
            lease,
            timing,
            metadata,
            observer,
            end: OnceLock::new(),
            changed: Notify::new(),
            turn: Mutex::new(None),
            trouble: Mutex::new(None),
            doubtful,
            slot: AtomicU64::new(0),
        }
    }

    /// Keeps the client's turn for the key until the hold ends.
    pub(crate) fn keep_turn(&self, turn: Turn) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }

    /// The lease as granted; see [`Held::lease_now`] for its present validity.
    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) const fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Whether a request of the attempt was never answered, so that it may land after the release.
    pub(crate) const fn doubtful(&self) -> bool {
        self.doubtful
    }

    /// The lease with its present validity.
    pub(crate) fn lease_now(&self) -> Lease {
        Lease { valid_until: self.valid_until(), ..self.lease.clone() }
    }

    /// When the request that was granted left.
    pub(crate) fn granted_at(&self) -> Instant {
        self.proof_of(self.lease.valid_until)
    }

    /// What this hold is to others.
    pub(crate) fn busy(&self) -> Busy {
        let Claim { owner, .. } = self.lease.claim;
        let holder = Holder::new(owner, self.lease.token).metadata(self.metadata.clone());
        Busy::by(holder.expires_in(self.remaining()), self.remaining())
    }

    pub(crate) fn valid_until(&self) -> Instant {
        Instant::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.state() {
            LockState::Held | LockState::Jeopardy => self.valid_until().since(self.observer.now()),
            LockState::Lost(_) | LockState::Released => Duration::ZERO,
        }
    }

    pub(crate) fn state(&self) -> LockState {
        match self.end.get() {
            Some(End::Released | End::Detached) => LockState::Released,
            Some(End::Lost(reason)) => LockState::Lost(*reason),
            None => {
                let now = self.observer.now();
                if now >= self.valid_until() {
                    LockState::Lost(self.expiry_reason())
                } else if now >= self.jeopardy_at() {
                    LockState::Jeopardy
                } else {
                    LockState::Held
                }
            }
        }
    }

    /// When half the ttl will have passed since the last proof of life.
    pub(crate) fn jeopardy_at(&self) -> Instant {
        self.proof_of(self.valid_until()).plus(self.lease.ttl / 2).min(self.valid_until())
    }

    /// When renewal stops for good because of the holder's own limit.
    pub(crate) fn renewable_until(&self) -> Instant {
        self.timing.max_hold.map_or(Instant::FAR, |most| self.granted_at().plus(most))
    }

    /// Notes an acknowledged renewal. A validity that has passed stays passed: a lock that was lost
    /// for a moment may have had another holder.
    pub(crate) fn extend(&self, valid_until: Instant) -> bool {
        let alive = self.state().is_valid();
        if alive {
            self.valid_until.fetch_max(valid_until.as_nanos(), Ordering::AcqRel);
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.observer.tell(self, LockChange::Renewed { valid_until: self.valid_until() });
            self.changed.notify_waiters();
        } else {
            self.settle();
        }
        alive
    }

    /// Notes why a renewal failed, for the reason of a later loss.
    pub(crate) fn note_trouble(&self, kind: ErrorKind) {
        self.observer.meter().renewal_failed();
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(kind);
    }

    /// Ends the hold as lost. The first end stays.
    pub(crate) fn lose(&self, reason: LostReason) {
        self.finish(End::Lost(reason), LockChange::Lost(reason));
        drop(self.take_turn());
    }

    /// Ends the hold as given back; says why, if it had been lost before.
    pub(crate) fn release(&self) -> Result<(), LostReason> {
        self.settle();
        self.finish(End::Released, LockChange::Released);
        match self.end.get() {
            Some(End::Lost(reason)) => Err(*reason),
            Some(End::Released | End::Detached) | None => Ok(()),
        }
    }

    /// Ends the hold for this client, and leaves the lock to whoever adopts it.
    pub(crate) fn detach(&self) {
        self.settle();
        self.finish(End::Detached, LockChange::Detached);
    }

    /// Ends the hold because its guard is gone, perhaps with a thread that is torn down: then no clock can be read.
    pub(crate) fn abandon(&self) {
        if self.observer.try_now().is_some() {
            self.settle();
        }
        self.finish(End::Released, LockChange::Released);
    }

    /// The first end stays.
    fn finish(&self, end: End, change: LockChange) {
        if self.end.set(end).is_ok() {
            self.observer.tell(self, change);
        }
        self.changed.notify_waiters();
    }

    /// Whether a shutdown ended the hold, which also sweeps it.
    pub(crate) fn is_shut_down(&self) -> bool {
        matches!(self.end.get(), Some(End::Lost(LostReason::Shutdown)))
    }

    /// Makes a loss by time permanent.
    pub(crate) fn settle(&self) {
        if let LockState::Lost(reason) = self.state() {
            self.lose(reason);
        }
    }

    pub(crate) fn take_turn(&self) -> Option<Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Tells that the store granted it.
    pub(crate) fn announce_grant(&self) {
        self.observer.tell(self, LockChange::Granted);
    }

    /// Tells those who wait for a change that the clock brought it into jeopardy.
    pub(crate) fn announce_jeopardy(&self) {
        self.observer.tell(self, LockChange::Jeopardy { valid_until: self.valid_until() });
        self.changed.notify_waiters();
    }

    /// Waits until the state is another than `from`.
    pub(crate) async fn state_changed(&self, from: LockState) -> LockState {
        loop {
            let notified = self.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let state = self.state();
            if state != from {
                return state;
            }
            tokio::select! {
                () = notified => {}
                () = self.changed_by_clock(state) => {}
            }
        }
    }

    /// Waits until the clock alone changes `state`. The background task announces that too, but the
    /// runtime it lives in may have ended, and the one that waits here need not be the same.
    async fn changed_by_clock(&self, state: LockState) {
        let due = match state {
            LockState::Held => self.jeopardy_at(),
            LockState::Jeopardy => self.valid_until(),
            LockState::Lost(_) | LockState::Released => Instant::FAR,
        };
        if due == Instant::FAR || tokio::runtime::Handle::try_current().is_err() {
            return std::future::pending().await;
        }
        tokio::time::sleep(due.since(self.observer.now())).await;
    }

    /// Waits until the lock is lost; never resolves for one that is given back.
    pub(crate) async fn lost(&self) -> LostReason {
        let mut state = self.state();
        loop {
            if let LockState::Lost(reason) = state {
                return reason;
            }
            state = self.state_changed(state).await;
        }
    }

    /// Waits until the lock is lost or given back.
    pub(crate) async fn ended(&self) {
        let mut state = self.state();
        while state.is_valid() {
            state = self.state_changed(state).await;
        }
    }

    /// The send from which a validity counts.
    fn proof_of(&self, valid_until: Instant) -> Instant {
        valid_until.plus(self.lease.margin.of(self.lease.ttl)).minus(self.lease.ttl)
    }

    fn expiry_reason(&self) -> LostReason {
        if self.valid_until() >= self.renewable_until() {
            return LostReason::MaxHold;
        }
        match *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) {
            None => LostReason::Expired,
            Some(ErrorKind::PermissionDenied) => LostReason::Denied,
            Some(_) => LostReason::Unreachable,
        }
    }
}
