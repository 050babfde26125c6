//! How to take and keep a lock.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::guarantees::Guarantees;
use crate::lease::Margin;
use crate::metadata::Metadata;
use crate::waiting;

/// How to take and keep a lock. All fields have sensible defaults.
///
/// ```
/// use std::time::Duration;
/// use distlock_core::{LockOptions, WaitPolicy};
/// let options = LockOptions::default()
///     .ttl(Duration::from_secs(10))
///     .wait(WaitPolicy::UpTo(Duration::from_secs(2)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOptions {
    /// Lifetime of the lease without renewal: how long a crashed holder blocks others. Default 30 s;
    /// from 1 ms to 366 days, rounded up to what the store can.
    pub ttl: Duration,
    /// How long to wait for a busy lock. Default: for ever.
    pub wait: WaitPolicy,
    /// Whether the client renews the lease while the guard lives. Default: every third of the ttl.
    pub renew: RenewPolicy,
    /// Longest hold: after it the lease is not renewed any more and runs out within its ttl. It never
    /// releases a lock under a running holder. Default: none.
    pub max_hold: Option<Duration>,
    /// How to wait beside others. Default: [`Queueing::Auto`].
    pub queue: Queueing,
    /// What to store about the holder. Default: the client's, which is host name and process id.
    pub metadata: Option<Metadata>,
    /// Limit of one store operation, at most ttl/6. Default: min(2 s, ttl/6).
    pub op_timeout: Option<Duration>,
    /// How much earlier than the store the client considers the lease over. Default: 1 % of the
    /// ttl, and at least 2 ms.
    pub margin: Margin,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: WaitPolicy::Forever,
            renew: RenewPolicy::Auto,
            max_hold: None,
            queue: Queueing::Auto,
            metadata: None,
            op_timeout: None,
            margin: Margin::DEFAULT,
        }
    }
}

/// How long to wait for a busy lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitPolicy {
    /// Not at all: one attempt.
    No,
    /// At most this long.
    UpTo(Duration),
    /// Until it is free.
    Forever,
}

/// Whether the client renews a lease while its guard lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RenewPolicy {
    /// Every third of the effective ttl.
    Auto,
    /// This often, at most every third of the effective ttl.
    Every(Duration),
    /// Never by itself; the holder calls [`LockGuard::renew`](crate::LockGuard::renew).
    Manual,
}

/// How contenders wait beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Queueing {
    /// Contenders of one client for one key stand in a line of their own, and only its head asks the
    /// store, in the store's queue if it has one. A herd costs the store no more than a pair.
    Auto,
    /// Every contender joins the store's queue at once, so that all processes together are served
    /// strictly in order. Needs [`Supports::queue`](crate::Supports).
    Strict,
    /// As `Auto`, but outside the store's queue: contends with every attempt anew.
    Never,
}

impl LockOptions {
    /// Sets [`LockOptions::ttl`](#structfield.ttl).
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets how long to wait for a busy lock.
    #[must_use]
    pub const fn wait(mut self, wait: WaitPolicy) -> Self {
        self.wait = wait;
        self
    }

    /// Sets whether and how often the lease is renewed.
    #[must_use]
    pub const fn renew(mut self, renew: RenewPolicy) -> Self {
        self.renew = renew;
        self
    }

    /// Sets the longest hold.
    #[must_use]
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Sets how to wait beside others.
    #[must_use]
    pub const fn queue(mut self, queue: Queueing) -> Self {
        self.queue = queue;
        self
    }

    /// Sets what to store about the holder; [`Metadata::NONE`] stores nothing.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets the limit of one store operation.
    #[must_use]
    pub const fn op_timeout(mut self, limit: Duration) -> Self {
        self.op_timeout = Some(limit);
        self
    }

    /// Sets how much earlier than the store the client considers the lease over.
    #[must_use]
    pub const fn margin(mut self, margin: Margin) -> Self {
        self.margin = margin;
        self
    }

    /// Checks the options against a store's limits and works out the times that follow from them.
    pub(crate) fn timing(&self, guarantees: &Guarantees) -> Result<Timing> {
        let ttl = guarantees.effective_ttl(self.ttl)?;
        if self.margin.permille > 500 {
            return invalid(format!(
                "a margin of {} thousandths of the ttl is more than half of it; the most is 500",
                self.margin.permille
            ));
        }
        let margin = self.margin.of(ttl);
        if margin >= ttl / 2 {
            return invalid(format!(
                "a margin of {margin:?} leaves too little of the ttl of {ttl:?}; the most is {:?}",
                ttl / 2
            ));
        }
        let renew_every = match self.renew {
            RenewPolicy::Manual => None,
            RenewPolicy::Auto => Some(ttl / 3),
            RenewPolicy::Every(every) if every.is_zero() => {
                return invalid(
                    "renewing every 0 s would never pause; give a time, or leave it to the default of ttl/3"
                        .to_owned(),
                );
            }
            RenewPolicy::Every(every) if every > ttl / 3 => {
                return invalid(format!(
                    "renewing every {every:?} is too rare for a ttl of {ttl:?}: at most every {:?} (ttl/3), so that two failed renewals can be made good",
                    ttl / 3
                ));
            }
            RenewPolicy::Every(every) => Some(every),
        };
        let op_timeout = match self.op_timeout {
            None => waiting::op_timeout(ttl),
            Some(limit) if limit.is_zero() => {
                return invalid("an operation time-out of 0 s would fail every call; give a time, or leave it to the default".to_owned());
            }
            Some(limit) if limit > ttl / 6 => {
                return invalid(format!(
                    "an operation time-out of {limit:?} is too long for a ttl of {ttl:?}: at most {:?} (ttl/6), so that a failed renewal can be repeated in time",
                    ttl / 6
                ));
            }
            Some(limit) => limit,
        };
        if self.max_hold.is_some_and(|most| most.is_zero()) {
            return invalid("a longest hold of 0 s would never hold; leave it out for no limit".to_owned());
        }
        Ok(Timing { ttl, renew_every, op_timeout, max_hold: self.max_hold })
    }
}

/// The times that follow from valid options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ttl: Duration,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) op_timeout: Duration,
    pub(crate) max_hold: Option<Duration>,
}

impl Timing {
    /// The times for a grant of `ttl`, which may be less than what was asked for.
    pub(crate) fn within(self, ttl: Duration) -> Self {
        Self {
            ttl: self.ttl.min(ttl),
            renew_every: self.renew_every.map(|every| every.min(ttl / 3)),
            op_timeout: self.op_timeout.min(ttl / 6),
            ..self
        }
    }
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOptions, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timing(options: &LockOptions) -> Result<Timing> {
        options.timing(&Guarantees::single_node())
    }

    #[test]
    fn defaults_follow_from_the_effective_ttl() {
        let times = timing(&LockOptions::default()).unwrap();
        assert_eq!((times.renew_every, times.op_timeout), (Some(10 * SECOND), 2 * SECOND));
        let short = timing(&LockOptions::default().ttl(Duration::from_millis(5))).unwrap();
        assert_eq!(short.ttl, Duration::from_millis(100), "clamped to the store's floor");
    }

    #[test]
    fn a_grant_of_less_than_was_asked_for_is_renewed_more_often() {
        let times = timing(&LockOptions::default()).unwrap();
        let less = times.within(6 * SECOND);
        assert_eq!((less.ttl, less.renew_every, less.op_timeout), (6 * SECOND, Some(2 * SECOND), SECOND));
        let same = times.within(30 * SECOND);
        assert_eq!(
            (same.ttl, same.renew_every, same.op_timeout),
            (times.ttl, times.renew_every, times.op_timeout)
        );
    }

    #[test]
    fn contradictions_are_refused_with_the_numbers() {
        for (options, number) in [
            (LockOptions::default().ttl(6 * SECOND).renew(RenewPolicy::Every(3 * SECOND)), "2s"),
            (LockOptions::default().ttl(6 * SECOND).op_timeout(2 * SECOND), "1s"),
            (LockOptions::default().renew(RenewPolicy::Every(Duration::ZERO)), "0 s"),
            (LockOptions::default().op_timeout(Duration::ZERO), "0 s"),
            (LockOptions::default().max_hold(Duration::ZERO), "0 s"),
            (LockOptions::default().margin(Margin::new(600, SECOND)), "600"),
            (LockOptions::default().ttl(SECOND).margin(Margin::new(10, SECOND)), "1s"),
        ] {
            let error = timing(&options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOptions);
            assert!(error.to_string().contains(number), "{error}");
        }
    }
}
