//! What can be measured.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use distlock::{Error, ErrorKind, Result, nearest};
use serde::{Deserialize, Serialize};

/// What is measured. [`Scenario::ALL`] is the list, in the order of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Scenario {
    /// One task takes and releases one free lock.
    Uncontended,
    /// Many tasks, each with a lock of its own.
    Spread,
    /// A few tasks of one process want one lock.
    Hot,
    /// A crowd of tasks of one process wants one lock.
    Herd,
    /// Many held locks are kept alive.
    Held,
    /// Several processes want one lock.
    Processes,
}

/// What a scenario takes when nothing else is asked for.
pub(crate) struct Defaults {
    pub(crate) contenders: usize,
    pub(crate) duration: Duration,
    pub(crate) hold: Duration,
    pub(crate) think: Duration,
    pub(crate) ttl: Duration,
}

struct Row {
    id: &'static str,
    about: &'static str,
    contenders: usize,
    seconds: u64,
    pause_ms: u64,
    ttl_s: u64,
}

/// In the order of the enum.
const TABLE: [Row; 6] = [
    Row {
        id: "uncontended",
        about: "one task takes and releases one free lock",
        contenders: 1,
        seconds: 5,
        pause_ms: 0,
        ttl_s: 30,
    },
    Row {
        id: "spread",
        about: "64 tasks, each with a lock of its own",
        contenders: 64,
        seconds: 5,
        pause_ms: 0,
        ttl_s: 30,
    },
    Row {
        id: "hot",
        about: "8 tasks of one process want one lock",
        contenders: 8,
        seconds: 5,
        pause_ms: 0,
        ttl_s: 30,
    },
    Row {
        id: "herd",
        about: "256 tasks of one process want one lock",
        contenders: 256,
        seconds: 5,
        pause_ms: 0,
        ttl_s: 30,
    },
    Row {
        id: "held",
        about: "10 000 held locks with a ttl of 30 s are kept alive",
        contenders: 10_000,
        seconds: 60,
        pause_ms: 0,
        ttl_s: 30,
    },
    Row {
        id: "processes",
        about: "8 processes want one lock, hold it for 1 ms and think for 1 ms",
        contenders: 8,
        seconds: 30,
        pause_ms: 1,
        ttl_s: 30,
    },
];

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 6] =
        [Self::Uncontended, Self::Spread, Self::Hot, Self::Herd, Self::Held, Self::Processes];

    /// The name by which it is asked for and reported.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.row().id
    }

    /// What it does, in a few words.
    #[must_use]
    pub fn about(self) -> &'static str {
        self.row().about
    }

    pub(crate) fn defaults(self) -> Defaults {
        let row = self.row();
        Defaults {
            contenders: row.contenders,
            duration: Duration::from_secs(row.seconds),
            hold: Duration::from_millis(row.pause_ms),
            think: Duration::from_millis(row.pause_ms),
            ttl: Duration::from_secs(row.ttl_s),
        }
    }

    /// Whether all contenders want the same lock.
    pub(crate) const fn one_key(self) -> bool {
        matches!(self, Self::Uncontended | Self::Hot | Self::Herd | Self::Processes)
    }

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

impl FromStr for Scenario {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.id() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::id);
            let advice = match nearest(text, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", known.join(", ")),
            };
            Error::new(
                ErrorKind::InvalidOptions,
                format!("there is no scenario `{}`; {advice}", text.escape_debug()),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_scenarios() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.id().parse::<Scenario>().unwrap(), scenario);
            assert_eq!(serde_json::to_value(scenario).unwrap(), scenario.id());
        }
    }

    #[test]
    fn a_misspelt_scenario_gets_the_nearest_name() {
        let error = "hert".parse::<Scenario>().unwrap_err();
        assert!(error.to_string().contains("`herd`"), "{error}");
        assert!("x".parse::<Scenario>().unwrap_err().to_string().contains("uncontended, spread"));
    }
}
