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
//! | H7 | some order of the calls explains every answer: the lock is linearizable | `linear/mod.rs` |
//!
//! A *definite hold* begins when the grant arrived and ends at the earliest of: the release left, the
//! loss was announced, the validity that the holder was told ended. Nobody may rely on more, so an
//! overlap of two definite holds is a fault of the store or of the client, never of the check.

mod ends;
mod event;
mod exclusion;
mod fencing;
mod holds;
mod linear;
mod liveness;
mod loss_signal;
mod outages;
mod owner_safety;
#[cfg(test)]
mod properties;
mod queue;
mod reading;
mod recorder;
mod resource;
#[cfg(test)]
mod script;
mod spans;

use std::fmt;
use std::time::Duration;

use distlock_core::{BackendInfo, Exclusion, ExpiryClock, Fairness};

pub(crate) use event::nanos;
pub use event::{Event, What};
pub use reading::{ReadError, read, read_folder};
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
    /// How long the store may keep the place of a waiter that does not ask again, beyond its ttl.
    pub place: Duration,
    /// How exactly the store shows the time that a lease has left.
    pub sight: Duration,
    /// Whether each call takes effect in one step, so that of two attempts on a free lock one is granted.
    pub single_step: bool,
    /// Whether a lock may become free before its lease ends, because its connection ended.
    pub sudden_ends: bool,
}

impl Promises {
    /// The promises of a store, where none of its servers fails.
    #[must_use]
    pub fn of(info: &BackendInfo) -> Self {
        Self {
            exclusion: info.guarantees.exclusion >= Exclusion::BetweenFailovers,
            fifo: info.guarantees.fairness >= Fairness::Fifo,
            lateness: lateness(info),
            place: Duration::from_secs(match info.guarantees.expiry {
                // That of a dead process goes with its session.
                ExpiryClock::Session => 15,
                _ => 5,
            }),
            sight: match info.guarantees.expiry {
                // It may tell whole seconds.
                ExpiryClock::Leader => Duration::from_secs(1),
                _ => Duration::ZERO,
            } + Duration::from_millis(2),
            single_step: info.guarantees.exclusion > Exclusion::BetweenFailovers
                && matches!(info.guarantees.expiry, ExpiryClock::Holder | ExpiryClock::Server),
            sudden_ends: !info.guarantees.survives_disconnect,
        }
    }

    /// What every store promises that is a record with a ttl: exclusion, in no order, in several steps, with a
    /// grain of a second. For histories of which nothing else is known.
    #[must_use]
    pub const fn common() -> Self {
        Self {
            exclusion: true,
            fifo: false,
            lateness: Duration::from_millis(3500),
            place: Duration::from_secs(15),
            sight: Duration::from_millis(1002),
            single_step: false,
            sudden_ends: false,
        }
    }

    /// The same, but a lock may end before its lease does, as where servers of a quorum forget it one after the
    /// other.
    #[must_use]
    pub const fn with_sudden_ends(mut self) -> Self {
        self.sudden_ends = true;
        self
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

/// The checks, with the promise of each.
pub const CHECKS: [(&str, &str); 7] = [
    ("H1", "two definite holds of a key never overlap"),
    ("H2", "tokens of a key are distinct, rise with every grant and stay the same under a repeat"),
    ("H3", "a fenced resource accepts no lower token after a higher one and loses no update"),
    ("H4", "a late renewal or release of an earlier owner never touches its successor"),
    ("H5", "nobody is refused a lock that nobody can hold; waits end in time; FIFO where declared"),
    ("H6", "no guard says valid after its validity, and each loss is announced by then"),
    ("H7", "some order of the calls explains every answer"),
];

/// A promise that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The check: `H1` to `H7`.
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
        violations.extend(owner_safety::check(key, &events, &holds, promises));
        violations.extend(liveness::check(key, &events, promises, delay));
        violations.extend(loss_signal::check(key, &events));
        if promises.exclusion {
            let margin = nanos(promises.lateness + delay);
            violations.extend(linear::check(key, &events, promises, margin));
        }
    }
    violations.extend(resource::check(&events));
    violations
}
