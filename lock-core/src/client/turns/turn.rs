//! The right to contend for a key, and for how long it may stay inside one client.

use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use super::{Called, Lines, Turns};
use crate::clock::Instant;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::key::LockKey;
use crate::outcome::Busy;
use crate::request::LockRequest;

/// So often in a row the lock stays inside one client, without its giving others a chance.
pub(super) const MOST_IN_A_ROW: u32 = 16;
/// The same by time, from the first hand-over on: where holds are long, sixteen of them would be too long.
pub(super) const LONGEST_ROW: Duration = Duration::from_millis(100);
/// After a row the next of this client stands back for this part of the row's time. Else it would ask the store before
/// those elsewhere have even heard of the release, and win again and again.
pub(super) const STANDING_BACK: u32 = 16;
/// Shorter waits add up until they are worth a timer.
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// The right to contend for a key on behalf of this client. Dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(super) turns: Arc<Turns>,
    pub(super) key: Option<LockKey>,
    /// How often in a row the lock was handed over inside this client, and since when.
    pub(super) handed_over: u32,
    pub(super) row_since: Option<Instant>,
}

impl Turn {
    /// Notes what the store answered, for those behind.
    pub(crate) fn note(&self, answer: Result<&Busy, &Error>) {
        let news = Box::new(answer.cloned().map_err(Clone::clone));
        self.turns.update(self.key.as_ref(), |line| {
            if news.is_ok() {
                // Others have had it.
                line.owed = Duration::ZERO;
            }
            line.news = Some(news);
        });
    }

    /// Notes that whoever has this turn holds the lock now.
    pub(crate) fn note_granted(&self, held: &Arc<Held>) {
        let holder = Some(Arc::downgrade(held));
        self.turns.update(self.key.as_ref(), |line| {
            line.holder = holder;
            line.news = None;
        });
    }

    /// Counts one more hand-over in a row; gives what is needed to find the waiter.
    pub(crate) fn hand_over(&mut self, now: Instant) -> (Arc<Turns>, Option<LockKey>) {
        self.handed_over += 1;
        self.row_since.get_or_insert(now);
        (Arc::clone(&self.turns), self.key.clone())
    }

    /// For how long its owner has to stand back before it contends, after rows that were long enough.
    pub(crate) fn stand_back(&self) -> Option<Duration> {
        let mut lines = self.turns.lines();
        let owed = &mut lines.by_key.get_mut(self.key.as_ref()?)?.owed;
        (*owed >= LEAST_PAUSE).then(|| std::mem::take(owed))
    }

    /// Ends without passing anything on.
    fn forget(mut self) {
        self.key = None;
    }

    /// The first waiter's request, if the lock may be handed over to it: only so often in a row, and not
    /// for long, so that other processes get their turn.
    pub(crate) fn successor(&self, now: Instant) -> Option<LockRequest> {
        let lasted = self.row_since.map_or(Duration::ZERO, |since| now.since(since));
        let mut lines = self.turns.lines();
        let line = lines.by_key.get_mut(self.key.as_ref()?)?;
        if lasted >= LONGEST_ROW || self.handed_over >= MOST_IN_A_ROW {
            line.owed += lasted.min(LONGEST_ROW) / STANDING_BACK;
            return None;
        }
        let (_, waiter) = line.waiting.first_key_value()?;
        // Handed over or not: it has its place in the line, and needs none in the store.
        Some(waiter.request.clone().queue(false))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut lines = self.turns.lines();
        let Lines { by_key, waiters, .. } = &mut *lines;
        let Entry::Occupied(mut line) = by_key.entry(key) else { return };
        line.get_mut().holder = None;
        while let Some((_, waiter)) = line.get_mut().waiting.pop_first() {
            *waiters -= 1;
            match waiter.call.send(Called::Contend(self.turns.turn(line.key()))) {
                Ok(()) => return,
                // Its caller gave up at this very moment.
                Err(Called::Contend(turn)) => turn.forget(),
                Err(Called::Granted(_)) => {}
            }
        }
        line.remove();
    }
}
