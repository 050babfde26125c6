//! How a store is doing.

use std::time::Duration;

/// What a live probe of the store found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Health {
    /// The server's own name and version, if it has one.
    pub version: Option<String>,
    /// How long the probe's round trip took.
    pub round_trip: Duration,
    /// What an operator should change.
    pub warnings: Vec<Warning>,
}

impl Health {
    /// Reachable, with nothing to complain about.
    #[must_use]
    pub const fn new(version: Option<String>, round_trip: Duration) -> Self {
        Self { version, round_trip, warnings: Vec::new() }
    }

    /// Adds a warning.
    #[must_use]
    pub fn warn(mut self, what: impl Into<String>, fix: impl Into<String>) -> Self {
        self.warnings.push(Warning { what: what.into(), fix: fix.into() });
        self
    }
}

/// Clocks that differ by less are fine.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// Something that an operator should change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Warning {
    /// What is wrong and what it can lead to.
    pub what: String,
    /// How to put it right.
    pub fix: String,
}

impl Warning {
    /// What there is to say about a server's clock against this machine's: nothing, if they may agree
    /// or differ by a second at most. No lease depends on their difference, but one of them is wrong.
    ///
    /// `server` and `before` are times since 1970, the second this machine's before the server was
    /// asked; `took` is how long the answer took.
    #[must_use]
    pub fn of_clocks(server: Duration, before: Duration, took: Duration) -> Option<Self> {
        let after = before.saturating_add(took);
        let difference = before.saturating_sub(server).max(server.saturating_sub(after));
        let side = if server > after { "ahead of" } else { "behind" };
        (difference > CLOCK_DIFFERENCE).then(|| Self {
            what: format!(
                "the server's clock is {difference:.1?} {side} this machine's; one of them is wrong, and setting the server's right by a step ends leases early or late"
            ),
            fix: "let a time service (chrony, ntpd) slew both".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(server: u64, before: u64, took: u64) -> bool {
        let [server, before, took] = [server, before, took].map(Duration::from_millis);
        Warning::of_clocks(server, before, took).is_some()
    }

    #[test]
    fn a_slow_answer_is_no_wrong_clock() {
        assert!(!differ(12_900, 10_000, 3_000));
        assert!(differ(14_100, 10_000, 3_000), "ahead");
        assert!(differ(8_900, 10_000, 3_000), "behind");
    }
}
