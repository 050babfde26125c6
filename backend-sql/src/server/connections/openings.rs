//! How many connections are opened at once.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Lane;

/// As many connections are opened at once as are wanted, but after one that could not be, one for each lane until one
/// could: where the server or this program is short of time, many at once take so long that none is done within its
/// time-out, again and again.
#[derive(Debug)]
pub(super) struct Openings {
    is_careful: AtomicBool,
    attempts: Semaphore,
    upkeep: Semaphore,
}

impl Openings {
    pub(super) const fn new() -> Self {
        let [attempts, upkeep] = [Semaphore::const_new(1), Semaphore::const_new(1)];
        Self { is_careful: AtomicBool::new(false), attempts, upkeep }
    }

    /// Waits until a connection may be opened.
    pub(super) async fn turn(&self, lane: Lane) -> Option<SemaphorePermit<'_>> {
        if !self.is_careful.load(Ordering::Relaxed) {
            return None;
        }
        let turns = match lane {
            Lane::Attempt => &self.attempts,
            Lane::Upkeep => &self.upkeep,
        };
        // Nobody closes it.
        turns.acquire().await.ok()
    }

    /// One was opened, or could not be.
    pub(super) fn note(&self, could_be: bool) {
        self.is_careful.store(!could_be, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn one_at_a_time_after_one_that_failed_until_one_is_there() {
        let openings = Openings::new();
        let turn = |lane| openings.turn(lane).now_or_never();
        let many: Vec<_> = (0..9).map(|_| turn(Lane::Attempt).expect("nothing went wrong")).collect();
        openings.note(false);
        drop(many);
        let first = turn(Lane::Attempt).expect("one may be opened");
        assert!(first.is_some() && turn(Lane::Attempt).is_none());
        assert!(turn(Lane::Upkeep).is_some(), "what keeps locks does not wait for attempts");
        openings.note(true);
        assert!(turn(Lane::Attempt).is_some(), "as many as are wanted");
    }
}
