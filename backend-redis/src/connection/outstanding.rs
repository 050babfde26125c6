//! Noticing that a connection leads nowhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use distlock_core::{Clock, Instant};

/// So many commands in a row without an answer, …
const UNANSWERED: u32 = 3;
/// … the first of them sent this long ago, make a connection useless. A frozen server and a half-open
/// socket look alike: nothing comes, and no error either.
const SILENCE: Duration = Duration::from_secs(1);

/// A connection that is no older than this shows who stands behind its address now.
const YOUNG: Duration = Duration::from_secs(1);

/// How one connection is doing.
#[derive(Debug)]
pub(super) struct Condition {
    clock: Clock,
    opened: Instant,
    is_over: AtomicBool,
    /// Commands without an answer since the last answer, and when the first of them was sent.
    unanswered: Mutex<(u32, Instant)>,
}

impl Condition {
    pub(super) fn new() -> Self {
        Self::of(Clock::system())
    }

    fn of(clock: Clock) -> Self {
        Self {
            opened: clock.now(),
            clock,
            is_over: AtomicBool::new(false),
            unanswered: Mutex::new((0, Instant::FAR)),
        }
    }

    /// Whether the connection must be replaced.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The connection must be replaced.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// The connection must be replaced if it was opened a while ago: a new one may lead elsewhere.
    pub(super) fn end_unless_young(&self) {
        if self.clock.now().since(self.opened) >= YOUNG {
            self.end();
        }
    }

    /// A command is about to be sent.
    pub(super) fn send(&self) -> Outstanding<'_> {
        Outstanding { condition: self, sent: self.clock.now(), is_answered: false }
    }

    fn answered(&self) {
        *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = (0, Instant::FAR);
    }

    fn given_up(&self, sent: Instant) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        *unanswered = (unanswered.0.saturating_add(1), unanswered.1.min(sent));
        if unanswered.0 >= UNANSWERED && self.clock.now().since(unanswered.1) >= SILENCE {
            self.end();
        }
    }
}

/// A command that was sent; dropped without an answer, it counts against its connection.
#[derive(Debug)]
pub(super) struct Outstanding<'a> {
    condition: &'a Condition,
    sent: Instant,
    is_answered: bool,
}

impl Outstanding<'_> {
    /// Something came back.
    pub(super) fn answered(mut self) {
        self.is_answered = true;
        self.condition.answered();
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.condition.given_up(self.sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lasting_silence_ends_a_connection() {
        let (clock, hand) = Clock::manual();
        let condition = Condition::of(clock);
        for _ in 0..10 {
            drop(condition.send());
        }
        assert!(!condition.is_over(), "ten callers in a hurry are no silence");
        condition.send().answered();
        for _ in 0..2 {
            drop(condition.send());
        }
        hand.advance(SILENCE);
        assert!(!condition.is_over());
        drop(condition.send());
        assert!(condition.is_over());
    }

    #[test]
    fn a_young_connection_is_no_reason_for_another_one() {
        let (clock, hand) = Clock::manual();
        let condition = Condition::of(clock);
        condition.end_unless_young();
        assert!(!condition.is_over());
        hand.advance(YOUNG);
        condition.end_unless_young();
        assert!(condition.is_over());
    }
}
