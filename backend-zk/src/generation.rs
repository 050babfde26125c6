//! One session's life, and what belongs to it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Clock, Instant, Margin, OwnerId};
use futures_util::future::join;
use tokio::sync::watch;

use crate::floor::Floor;
use crate::names::{Contender, Names, queue};
use crate::places::Places;
use crate::session::{Condition, End, Outcome, Session};

/// Who held a lock in a session that is over, and has not been told yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bereft(Arc<Mutex<HashSet<OwnerId>>>);

impl Bereft {
    fn add(&self, owner: OwnerId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(owner);
    }

    /// Whether the owner lost its lock with a session; told once.
    pub(crate) fn take(&self, owner: OwnerId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&owner)
    }
}

/// One session's life, and what belongs to it: nothing of it goes over to the next session.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) names: Names,
    pub(crate) clock: Clock,
    pub(crate) places: Places,
    /// As the last look showed it, with the version of its node.
    floor: Mutex<Option<(Floor, i32)>>,
    bereft: Bereft,
    end: watch::Sender<Option<End>>,
    is_stopped: watch::Sender<bool>,
}

/// A lock's queue as of one moment.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) queue: Vec<Contender>,
    pub(crate) floor: Floor,
}

impl Generation {
    pub(crate) fn new(session: Arc<dyn Session>, names: Names, bereft: Bereft) -> Arc<Self> {
        Arc::new(Self {
            session,
            names,
            clock: Clock::system(),
            places: Places::default(),
            floor: Mutex::default(),
            bereft,
            end: watch::Sender::new(None),
            is_stopped: watch::Sender::new(false),
        })
    }

    /// A lock's queue. It may be behind the leader, and then shows places that are gone; never does it
    /// hide one that was made before an earlier call of this session was answered.
    pub(crate) async fn look(&self, lock: &str) -> Outcome<Look> {
        let (children, node) = self.session.children(lock, &self.names.token_floor()).await?;
        let floor = Floor::read(node.as_ref());
        *self.known_floor() = node.map(|node| (floor.clone(), node.version));
        Ok(Look { queue: queue(children), floor })
    }

    /// The floor as the last look showed it, and the version that its node has if it is still the same.
    pub(crate) fn floor(&self) -> Option<(Floor, i32)> {
        self.known_floor().clone()
    }

    fn known_floor(&self) -> MutexGuard<'_, Option<(Floor, i32)>> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, as the leader has it.
    pub(crate) async fn look_now(&self, lock: &str) -> Outcome<Look> {
        // One round trip: what is asked for first is answered first.
        let (synced, look) = join(self.session.sync(lock), self.look(lock)).await;
        synced?;
        look
    }

    /// The longest ttl that a grant can state.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.session.beats().longest_ttl()
    }

    /// Until when a holder may rely on a lock of `ttl` whose node it wrote at `sent`.
    pub(crate) fn valid_until(&self, margin: Margin, ttl: Duration, sent: Instant) -> Instant {
        margin.valid_until(sent, ttl).min(self.session.beats().valid_until(margin))
    }

    /// Why the session is over, if it is.
    pub(crate) fn ended(&self) -> Option<End> {
        *self.end.borrow()
    }

    /// Resolves when the session is over.
    pub(crate) async fn over(&self) {
        // The sender lives as long as `self`.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// The session is over: whoever holds or waits is told.
    pub(crate) fn finish(&self, end: End) {
        self.end.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert(end);
            is_first
        });
        for place in self.places.clear() {
            // Who is in the middle of an operation finds out by itself.
            if let Ok(mut state) = place.state.try_lock() {
                if state.token.is_some() {
                    self.bereft.add(place.claim.owner);
                }
                state.forget();
                state.over = true;
            } else {
                self.bereft.add(place.claim.owner);
            }
            place.signal.raise();
        }
    }

    /// Sees the connection go and come: watches may have missed something.
    pub(crate) fn connections(&self) -> watch::Receiver<Condition> {
        self.session.condition()
    }

    /// Has the session closed as soon as no lock is held in it any more.
    pub(crate) fn stop(&self) {
        self.is_stopped.send_replace(true);
    }

    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.is_stopped.subscribe()
    }
}
