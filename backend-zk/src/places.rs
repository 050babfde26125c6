//! The places that this program has in queues, in one session.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Busy, Claim, FencingToken, Instant, OwnerId};
use tokio::sync::{Mutex as AsyncMutex, Notify};

use crate::generation::Look;
use crate::waiting::Watching;

/// The places that this program has in queues, in one session.
#[derive(Debug, Default)]
pub(crate) struct Places {
    table: Mutex<Table>,
    /// When whoever clears up comes by itself.
    planned: AtomicU64,
    /// Some place ends before that.
    pub(crate) sooner: Notify,
}

#[derive(Debug, Default)]
struct Table {
    places: HashMap<OwnerId, Arc<Place>>,
    ends: BinaryHeap<Reverse<(Instant, OwnerId)>>,
}

/// One attempt's place in a queue.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) claim: Claim,
    /// The lock's node.
    pub(crate) lock: String,
    /// When the place is given up unless somebody shows an interest in it.
    ends_at: AtomicU64,
    pub(crate) signal: Arc<Signal>,
    /// Held during each operation on the place, so that they come one after another.
    pub(crate) state: AsyncMutex<State>,
}

/// What is known of a place.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The place's node, if there is one for sure.
    pub(crate) own: Option<Own>,
    /// Whether there may be nodes of this attempt that are not known.
    pub(crate) unsure: bool,
    /// The grant's token.
    pub(crate) token: Option<FencingToken>,
    /// The longest ttl that was asked for.
    pub(crate) ttl: Duration,
    /// What the node says.
    pub(crate) data: Vec<u8>,
    /// Whether it is to be removed.
    pub(crate) leaving: bool,
    /// Whether it is out of the table.
    pub(crate) over: bool,
    /// Watches the queue for it.
    pub(crate) watcher: Option<Watching>,
    /// What the last look showed.
    pub(crate) busy: Busy,
}

/// The node of a place.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) path: String,
    pub(crate) czxid: i64,
    /// Unknown after a write without an answer.
    pub(crate) version: Option<i32>,
}

impl State {
    /// The place's node is gone, and whatever it stood for.
    pub(crate) fn forget(&mut self) {
        self.own = None;
        self.token = None;
        self.stop_watching();
    }

    pub(crate) fn stop_watching(&mut self) {
        self.watcher = None;
    }
}

/// Tells whoever waits that it is worth another look.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_up: AtomicBool,
    raised: Notify,
    /// The look that was the reason, and when it was taken.
    look: Mutex<Option<(Look, Instant)>>,
}

impl Signal {
    pub(crate) fn raise(&self) {
        self.raise_for(None);
    }

    /// Raises it because of a look that was taken at that instant.
    pub(crate) fn raise_for(&self, look: Option<(Look, Instant)>) {
        *self.look() = look;
        self.is_up.store(true, Ordering::Release);
        self.raised.notify_waiters();
    }

    pub(crate) fn lower(&self) {
        *self.look() = None;
        self.is_up.store(false, Ordering::Release);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// The look that it was raised for, once, and unless it is older than `longest`.
    pub(crate) fn take_look(&self, now: Instant, longest: Duration) -> Option<Look> {
        let (look, at) = self.look().take()?;
        (now.since(at) <= longest).then_some(look)
    }

    fn look(&self) -> MutexGuard<'_, Option<(Look, Instant)>> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is up.
    pub(crate) async fn up(&self) {
        loop {
            let raised = self.raised.notified();
            tokio::pin!(raised);
            raised.as_mut().enable();
            if self.is_up() {
                return;
            }
            raised.await;
        }
    }
}

impl Place {
    pub(crate) fn ends_at(&self) -> Instant {
        Instant::from_nanos(self.ends_at.load(Ordering::Acquire))
    }
}

impl Places {
    /// The claim's place, or a new one that is kept until `ends_at`.
    pub(crate) fn enter(&self, claim: &Claim, lock: &str, ends_at: Instant) -> Arc<Place> {
        let mut table = self.table();
        if let Some(place) = table.places.get(&claim.owner).filter(|place| place.claim == *claim) {
            return Arc::clone(place);
        }
        let place = Arc::new(Place {
            claim: claim.clone(),
            lock: lock.to_owned(),
            ends_at: AtomicU64::new(ends_at.as_nanos()),
            signal: Arc::default(),
            state: AsyncMutex::default(),
        });
        table.places.insert(claim.owner, Arc::clone(&place));
        table.ends.push(Reverse((ends_at, claim.owner)));
        drop(table);
        self.hurry(ends_at);
        place
    }

    /// Says when whoever clears up comes by itself.
    pub(crate) fn plan(&self, at: Instant) {
        self.planned.store(at.as_nanos(), Ordering::Release);
    }

    fn hurry(&self, ends_at: Instant) {
        if ends_at.as_nanos() < self.planned.load(Ordering::Acquire) {
            self.sooner.notify_one();
        }
    }

    /// The claim's place.
    pub(crate) fn get(&self, claim: &Claim) -> Option<Arc<Place>> {
        self.table().places.get(&claim.owner).filter(|place| place.claim == *claim).cloned()
    }

    /// Moves a place's end, later or sooner.
    pub(crate) fn keep_until(&self, place: &Place, ends_at: Instant) {
        let before = place.ends_at.swap(ends_at.as_nanos(), Ordering::AcqRel);
        if ends_at.as_nanos() < before {
            self.table().ends.push(Reverse((ends_at, place.claim.owner)));
            self.hurry(ends_at);
        }
    }

    /// Takes a place out. Its state must be locked.
    pub(crate) fn remove(&self, place: &Place, state: &mut State) {
        state.forget();
        state.over = true;
        self.table().places.remove(&place.claim.owner);
    }

    /// Takes out the places whose end has come, to be given up; and says when the next one's comes.
    pub(crate) fn due(&self, now: Instant) -> (Vec<Arc<Place>>, Instant) {
        let mut table = self.table();
        let mut due = Vec::new();
        loop {
            let Some(Reverse((at, owner))) = table.ends.peek().copied() else { return (due, Instant::FAR) };
            if at > now {
                return (due, at);
            }
            table.ends.pop();
            let Some(place) = table.places.get(&owner).cloned() else { continue };
            let ends_at = place.ends_at();
            if ends_at > now {
                table.ends.push(Reverse((ends_at, owner)));
            } else {
                due.push(place);
            }
        }
    }

    /// Has a place looked at once more at `at`, if it is still there.
    pub(crate) fn again(&self, place: &Place, at: Instant) {
        self.table().ends.push(Reverse((at, place.claim.owner)));
        self.hurry(at);
    }

    /// All places.
    pub(crate) fn all(&self) -> Vec<Arc<Place>> {
        self.table().places.values().cloned().collect()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.table().places.is_empty()
    }

    /// Takes all out at once, since their session is over.
    pub(crate) fn clear(&self) -> Vec<Arc<Place>> {
        let mut table = self.table();
        table.ends.clear();
        std::mem::take(&mut table.places).into_values().collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is complete before anything can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use distlock_core::LockKey;

    use super::*;

    #[test]
    fn places_come_due_when_nobody_keeps_them() {
        let at = |seconds| Instant::ORIGIN.plus(Duration::from_secs(seconds));
        let places = Places::default();
        let claim = |key: &str| Claim::mint(LockKey::new(key).unwrap());
        let (one, two) = (places.enter(&claim("a"), "/a", at(10)), places.enter(&claim("b"), "/b", at(20)));
        places.keep_until(&one, at(30));
        let (due, next) = places.due(at(15));
        assert!(due.is_empty());
        assert_eq!(next, at(20));
        let (due, next) = places.due(at(20));
        assert_eq!((due.len(), next), (1, at(30)));
        assert_eq!(due[0].claim, two.claim);
        places.keep_until(&one, at(21));
        let (due, _) = places.due(at(21));
        assert_eq!(due[0].claim, one.claim, "an end may be moved forward too");
    }
}
