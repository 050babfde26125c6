//! Tells those who follow a client what happens to its locks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::broadcast;

use crate::clock::{Clock, Instant};
use crate::events::{Events, LockChange, LockEvent};
use crate::held::Held;
use crate::meter::Meter;

/// So many events are kept for a reader that is behind.
const KEPT: usize = 1024;

/// One for each client. Nothing here waits, and while nobody follows it, nothing costs more than a load
/// and the metrics, if there are any.
#[derive(Debug)]
pub(crate) struct Observer {
    clock: Clock,
    meter: Meter,
    listeners: Arc<AtomicUsize>,
    // Made for the first listener: it takes up room.
    sender: OnceLock<broadcast::Sender<LockEvent>>,
}

impl Observer {
    pub(crate) fn new(clock: Clock, meter: Meter) -> Self {
        Self { clock, meter, listeners: Arc::default(), sender: OnceLock::new() }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The present instant, unless this thread is being torn down.
    pub(crate) fn try_now(&self) -> Option<Instant> {
        self.clock.try_now()
    }

    pub(crate) const fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Follows from now on.
    pub(crate) fn listen(&self) -> Events {
        Events::of(self.sender.get_or_init(|| broadcast::Sender::new(KEPT)), &self.listeners)
    }

    /// Tells of a change of a lock.
    pub(crate) fn tell(&self, held: &Held, change: LockChange) {
        if Meter::IS_ON {
            self.measure(held, change);
        }
        if self.listeners.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(sender) = self.sender.get() else { return };
        // While a thread is torn down, its clock can't be read; the grant was the last that is known then.
        let at = self.try_now().unwrap_or_else(|| held.granted_at());
        let lease = held.lease();
        let (key, owner, token) = (lease.claim.key.clone(), lease.claim.owner, lease.token);
        // It fails when the last listener has just left.
        let _ = sender.send(LockEvent { key, owner, token, at, change });
    }

    fn measure(&self, held: &Held, change: LockChange) {
        let meter = &self.meter;
        let end = |end| {
            let now = self.try_now();
            meter.hold_ends(end, now.map_or(Duration::ZERO, |now| now.since(held.granted_at())));
        };
        match change {
            LockChange::Granted => meter.hold_begins(),
            LockChange::Renewed { .. } => meter.renewed(),
            LockChange::Jeopardy { .. } => meter.jeopardy(),
            LockChange::Lost(reason) => {
                meter.loss(reason);
                end("lost");
            }
            LockChange::Released => end("released"),
            LockChange::Detached => end("detached"),
            LockChange::SelfWait { .. } => meter.self_wait(),
        }
    }
}
