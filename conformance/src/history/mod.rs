//! Histories of what clients saw, and the checks that every concurrent case must pass.
//!
//! | check | promise | file |
//! |---|---|---|
//! | H1 | two definite holds of a key never overlap | `exclusion.rs` |
//! | H2 | tokens of a key are distinct, rise with every grant and stay the same under a repeat | `fencing.rs` |
//! | H3 | a fenced resource accepts no lower token after a higher one and loses no update | `resource.rs` |
//! | H4 | a late renewal or release of an earlier owner never touches its successor | `owner_safety.rs` |
//! | H5 | nobody is refused a lock that nobody can hold; waits end in time; FIFO where declared | `liveness.rs` |
//! | H6 | no guard says valid after its validity, and each loss is announced by then | `loss_signal.rs` |
//!
//! A *definite hold* begins when the grant arrived and ends at the earliest of: the release left, the
//! loss was announced, the validity that the holder was told ended. Nobody may rely on more, so an
//! overlap of two definite holds is a fault of the store or of the client, never of the check.

mod ends;
mod event;
mod exclusion;
mod fencing;
mod holds;
mod liveness;
mod loss_signal;
mod owner_safety;
mod queue;
mod recorder;
mod resource;
#[cfg(test)]
mod script;

use std::fmt;
use std::time::Duration;

use distlock_core::{BackendInfo, Exclusion, Fairness};

pub(crate) use event::nanos;
pub use event::{Event, What};
pub use recorder::Recorder;
pub(crate) use recorder::save;
pub use resource::lost_updates;

/// What the store promises, as far as the checks depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Promises {
    /// Whether overlapping holds are a violation.
    pub exclusion: bool,
    /// Whether grants follow the order of the queue.
    pub fifo: bool,
    /// How much later than a lease's ttl the store may still show it.
    pub lateness: Duration,
}

impl Promises {
    /// The promises of a store, where none of its servers fails.
    #[must_use]
    pub fn of(info: &BackendInfo) -> Self {
        Self {
            exclusion: info.guarantees.exclusion >= Exclusion::BetweenFailovers,
            fifo: info.guarantees.fairness >= Fairness::Fifo,
            lateness: lateness(info),
        }
    }

    /// The same, but overlapping holds are expected, as after a failover that loses data.
    #[must_use]
    pub const fn without_exclusion(mut self) -> Self {
        self.exclusion = false;
        self
    }
}

/// How much later than its ttl a lease may end: two grains of the store, and time to notice.
pub(crate) fn lateness(info: &BackendInfo) -> Duration {
    Duration::from_millis(1500) + info.guarantees.ttl_grain * 2
}

/// A promise that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The check: `H1` to `H6`.
    pub check: &'static str,
    /// The key.
    pub key: String,
    /// What happened, and what should have.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(check: &'static str, key: &str, text: String) -> Self {
        Self { check, key: key.to_owned(), text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: {}", self.check, self.key, self.text)
    }
}

/// Checks a history against all promises. The events may come in any order.
#[must_use]
pub fn check(events: &[Event], promises: Promises) -> Vec<Violation> {
    let mut events = events.to_vec();
    recorder::sort(&mut events);
    let delay = events.iter().map(|event| if let What::End { delay } = event.what { delay } else { 0 }).max();
    let delay = Duration::from_nanos(delay.unwrap_or(0));
    let mut violations = Vec::new();
    for (key, events) in holds::by_key(&events) {
        let holds = holds::of(&events);
        if promises.exclusion {
            violations.extend(exclusion::check(key, &holds));
        }
        violations.extend(fencing::check(key, &events, &holds));
        violations.extend(owner_safety::check(key, &events, &holds));
        violations.extend(liveness::check(key, &events, promises, delay));
        violations.extend(loss_signal::check(key, &events));
    }
    violations.extend(resource::check(&events));
    violations
}
