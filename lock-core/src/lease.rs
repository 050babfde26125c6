//! A grant, and how long its holder may rely on it.

use std::time::Duration;

use crate::claim::Claim;
use crate::clock::Instant;
use crate::fencing::FencingToken;
use crate::outcome::Renewal;
use crate::request::LockRequest;

/// A granted lock as plain data: printable, storable, and transferable to another handle or process.
///
/// A lease does nothing by itself: it neither renews nor releases. [`adopt`](crate::LockClient::adopt)
/// turns it into a guard again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Lease {
    /// The lock and the attempt that holds it.
    pub claim: Claim,
    /// The grant's fencing token; it stays the same under renewal.
    pub token: FencingToken,
    /// The lifetime the store gave, after rounding and clamping.
    pub ttl: Duration,
    /// Until when the holder may rely on the lock, on the backend's clock. It has no meaning on
    /// another machine or after a reboot, so it is not stored: a lease read back counts as over
    /// until it is adopted, which renews it first.
    #[cfg_attr(feature = "serde", serde(skip, default = "over"))]
    pub valid_until: Instant,
    /// How much of the ttl is given up for clock drift.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub margin: Margin,
    /// Some request for it may still be on its way to the store, and land after the lock was released: see
    /// [`Lease::in_doubt`].
    #[cfg_attr(feature = "serde", serde(skip))]
    pub is_doubtful: bool,
}

#[cfg(feature = "serde")]
fn over() -> Instant {
    Instant::ORIGIN
}

impl Lease {
    /// The grant of `request`: the store gave `ttl`, and the request that (re)started its expiry was
    /// sent at `sent`. The instant must be read *before* the first byte leaves, never after the reply.
    #[must_use]
    pub fn granted(request: &LockRequest, token: FencingToken, ttl: Duration, sent: Instant) -> Self {
        Self {
            claim: request.claim.clone(),
            token,
            ttl,
            valid_until: request.margin.valid_until(sent, ttl),
            margin: request.margin,
            is_doubtful: false,
        }
    }

    /// Says that the backend sent the request more than once, and that not every one of them was answered. A client
    /// then withdraws the claim once more after its release.
    #[must_use]
    pub const fn in_doubt(mut self) -> Self {
        self.is_doubtful = true;
        self
    }

    /// The outcome of an acknowledged renewal that was sent at `sent` and gave `ttl` from then on.
    #[must_use]
    pub fn renewed(&self, ttl: Duration, sent: Instant) -> Renewal {
        Renewal::Renewed { valid_until: self.margin.valid_until(sent, ttl) }
    }
}

/// How much earlier than the store a client considers a lease over: the greater of a share of the
/// ttl and a fixed time. It covers the difference in rate between the two machines' clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Margin {
    /// Share of the ttl, in thousandths. At most 500.
    pub permille: u32,
    /// The least margin.
    pub at_least: Duration,
}

impl Margin {
    /// 1 % of the ttl, and at least 2 ms.
    pub const DEFAULT: Self = Self { permille: 10, at_least: Duration::from_millis(2) };

    /// A margin of `permille` thousandths of the ttl, and at least `at_least`.
    #[must_use]
    pub const fn new(permille: u32, at_least: Duration) -> Self {
        Self { permille, at_least }
    }

    /// The margin for a lease of `ttl`.
    #[must_use]
    pub fn of(self, ttl: Duration) -> Duration {
        (ttl / 1000).saturating_mul(self.permille).max(self.at_least)
    }

    /// Until when a lease of `ttl`, asked for at `sent`, may be relied on.
    #[must_use]
    pub fn valid_until(self, sent: Instant, ttl: Duration) -> Instant {
        sent.plus(ttl.saturating_sub(self.of(ttl)))
    }
}

impl Default for Margin {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_counts_from_the_send_and_gives_up_the_margin() {
        let sent = Instant::from_nanos(5_000_000_000);
        let at = |ttl| Margin::DEFAULT.valid_until(sent, ttl).since(sent);
        assert_eq!(at(Duration::from_secs(30)), Duration::from_millis(29_700));
        assert_eq!(at(Duration::from_millis(100)), Duration::from_millis(98));
        assert_eq!(at(Duration::from_millis(1)), Duration::ZERO);
    }
}
