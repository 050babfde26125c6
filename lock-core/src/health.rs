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
