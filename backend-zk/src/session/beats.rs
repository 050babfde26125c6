//! How long a session lives for sure.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Instant, Margin};

/// How long a session lives for sure, by this machine's clock alone.
///
/// The leader restarts a session's time-out only when the server that the client talks to tells it
/// of the client's requests, with its next ping. An acknowledged write proves that the leader was
/// reached, so that it knows of requests that are older by more than a ping, but perhaps not of this
/// write itself. So the time counts from a write that another one followed a while later.
#[derive(Debug)]
pub(crate) struct Beats {
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The latest request of which the leader knows for sure.
    sure: Option<Instant>,
    /// Acknowledged writes after that, by their sends.
    sends: VecDeque<Instant>,
    latest: Instant,
}

impl Beats {
    /// A session that was asked for at `opened`, if that is known: the leader itself opens it.
    pub(crate) fn new(timeout: Duration, opened: Option<Instant>) -> Self {
        let state = State { sure: opened, sends: VecDeque::new(), latest: opened.unwrap_or(Instant::ORIGIN) };
        Self { timeout, state: Mutex::new(state) }
    }

    /// How long two writes must be apart for the second to confirm the first: longer than the pings
    /// between servers, which come every half tick, where a session lasts two ticks at least.
    pub(crate) fn gap(&self) -> Duration {
        self.timeout / 3
    }

    /// How often there must be a write, so that every write finds one to confirm.
    pub(crate) fn every(&self) -> Duration {
        self.timeout / 6
    }

    /// The longest ttl for which a grant or a renewal is not cut by the session's end.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.timeout / 2
    }

    /// A write was acknowledged that left at `sent`.
    pub(crate) fn acknowledged(&self, sent: Instant) {
        let mut state = self.state();
        let apart = self.timeout / 24;
        if state.sends.back().is_none_or(|last| sent >= last.plus(apart)) {
            state.sends.push_back(sent);
        }
        state.latest = state.latest.max(sent);
        let known = state.latest.minus(self.gap());
        while state.sends.front().is_some_and(|first| *first <= known) {
            state.sure = state.sure.max(state.sends.pop_front());
        }
    }

    /// When the last acknowledged write left.
    pub(crate) fn latest(&self) -> Instant {
        self.state().latest
    }

    /// Until when a holder may rely on the session; [`Instant::ORIGIN`] if nothing is known yet.
    pub(crate) fn valid_until(&self, margin: Margin) -> Instant {
        self.state().sure.map_or(Instant::ORIGIN, |sure| margin.valid_until(sure, self.timeout))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.plus(SECOND * u32::try_from(seconds).unwrap())
    }

    fn sure(beats: &Beats) -> u64 {
        let margin = Margin::new(0, Duration::ZERO);
        (beats.valid_until(margin).minus(beats.timeout).as_nanos()) / 1_000_000_000
    }

    #[test]
    fn a_write_alone_confirms_only_what_is_older_by_a_ping() {
        let beats = Beats::new(SECOND * 12, Some(at(100)));
        assert_eq!(sure(&beats), 100, "the leader opened it");
        for (write, known) in [(102, 100), (104, 100), (106, 102), (107, 102), (108, 104), (130, 108)] {
            beats.acknowledged(at(write));
            assert_eq!(sure(&beats), known, "after a write at {write}");
        }
        beats.acknowledged(at(120));
        assert_eq!((sure(&beats), beats.latest()), (108, at(130)), "an answer that came late");
    }

    #[test]
    fn with_regular_beats_the_longest_ttl_fits() {
        let beats = Beats::new(SECOND * 12, Some(at(100)));
        for now in 101..160 {
            if now % 2 == 0 {
                beats.acknowledged(at(now));
            }
            let renewed = at(now);
            beats.acknowledged(renewed);
            let end = beats.valid_until(Margin::new(0, Duration::ZERO));
            assert!(end >= renewed.plus(beats.longest_ttl()), "at {now}");
        }
    }

    #[test]
    fn nothing_is_known_of_somebody_else_s_session_at_first() {
        let beats = Beats::new(SECOND * 12, None);
        beats.acknowledged(at(100));
        assert_eq!(beats.valid_until(Margin::DEFAULT), Instant::ORIGIN);
        beats.acknowledged(at(104));
        assert_eq!(sure(&beats), 100);
    }
}
