//! What stores are compared in.

use std::str::FromStr;
use std::time::Duration;

use distlock::{Error, ErrorKind, Result, nearest};
use serde::{Deserialize, Serialize};

use crate::options::BenchOptions;
use crate::scenario::Scenario;

/// What stores are compared in, one column of the report. [`Contest::FULL`] and [`Contest::QUICK`] are the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Contest {
    /// One task takes and releases one free lock.
    Uncontended,
    /// One task with a lock of its own, as the others of its kind.
    #[serde(rename = "spread-1")]
    Spread1,
    /// 16 tasks, each with a lock of its own.
    #[serde(rename = "spread-16")]
    Spread16,
    /// 64 tasks, each with a lock of its own.
    #[serde(rename = "spread-64")]
    Spread64,
    /// Two tasks of one process want one lock.
    #[serde(rename = "hot-2")]
    Hot2,
    /// Eight tasks of one process want one lock.
    #[serde(rename = "hot-8")]
    Hot8,
    /// 64 tasks of one process want one lock.
    #[serde(rename = "hot-64")]
    Hot64,
    /// 256 tasks of one process want one lock.
    #[serde(rename = "herd-256")]
    Herd256,
    /// Four processes of four tasks each want one lock.
    #[serde(rename = "processes-4x4")]
    Processes,
    /// 1000 held locks are kept alive.
    #[serde(rename = "held-1k")]
    Held1k,
    /// 10 000 held locks are kept alive.
    #[serde(rename = "held-10k")]
    Held10k,
    /// From the crash of a holder to the next grant.
    Crash,
    /// The longest time without a grant when the leading server dies.
    Failover,
}

impl Contest {
    /// What `make bench` compares in.
    pub const FULL: [Self; 13] = [
        Self::Uncontended,
        Self::Spread1,
        Self::Spread16,
        Self::Spread64,
        Self::Hot2,
        Self::Hot8,
        Self::Hot64,
        Self::Herd256,
        Self::Processes,
        Self::Held1k,
        Self::Held10k,
        Self::Crash,
        Self::Failover,
    ];

    /// What `make bench-quick` compares in.
    pub const QUICK: [Self; 5] =
        [Self::Uncontended, Self::Spread64, Self::Hot8, Self::Processes, Self::Crash];

    /// The name by which it is reported.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Uncontended => "uncontended",
            Self::Spread1 => "spread-1",
            Self::Spread16 => "spread-16",
            Self::Spread64 => "spread-64",
            Self::Hot2 => "hot-2",
            Self::Hot8 => "hot-8",
            Self::Hot64 => "hot-64",
            Self::Herd256 => "herd-256",
            Self::Processes => "processes-4x4",
            Self::Held1k => "held-1k",
            Self::Held10k => "held-10k",
            Self::Crash => "crash",
            Self::Failover => "failover",
        }
    }

    /// What happens, in a few words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Uncontended => "one task, one free lock",
            Self::Spread1 => "1 task, a lock of its own",
            Self::Spread16 => "16 tasks, a lock each",
            Self::Spread64 => "64 tasks, a lock each",
            Self::Hot2 => "2 tasks, one lock",
            Self::Hot8 => "8 tasks, one lock",
            Self::Hot64 => "64 tasks, one lock",
            Self::Herd256 => "256 tasks, one lock",
            Self::Processes => "4 processes of 4 tasks, one lock",
            Self::Held1k => "1000 locks kept alive",
            Self::Held10k => "10 000 locks kept alive",
            Self::Crash => "the holder is killed (ttl 2 s)",
            Self::Failover => "the leading server is killed",
        }
    }

    /// Whether several want the same lock, so that it is handed from one to another.
    #[must_use]
    pub const fn is_contended(self) -> bool {
        matches!(self, Self::Hot2 | Self::Hot8 | Self::Hot64 | Self::Herd256 | Self::Processes)
    }

    /// Whether its figure is a time without any holder, not one of pairs of lock and unlock.
    #[must_use]
    pub const fn is_gap(self) -> bool {
        matches!(self, Self::Crash | Self::Failover)
    }

    /// Whether its operations are renewals.
    #[must_use]
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Held1k | Self::Held10k)
    }

    /// How many tasks of this process contend, and whether for one lock; `None` if they are not of this process.
    pub(crate) const fn tasks(self) -> Option<(usize, bool)> {
        match self {
            Self::Uncontended => Some((1, true)),
            Self::Spread1 => Some((1, false)),
            Self::Spread16 => Some((16, false)),
            Self::Spread64 => Some((64, false)),
            Self::Hot2 => Some((2, true)),
            Self::Hot8 => Some((8, true)),
            Self::Hot64 => Some((64, true)),
            Self::Herd256 => Some((256, true)),
            _ => None,
        }
    }

    /// One round of it; `None` if it is none of a [`Scenario`]. Of a store with a goal for held locks, 10 000 of them
    /// are held as the goal has it.
    pub(crate) fn options(self, length: Duration, has_goal: bool) -> Option<BenchOptions> {
        let scenario = match self {
            Self::Uncontended => Scenario::Uncontended,
            Self::Spread1 | Self::Spread16 | Self::Spread64 => Scenario::Spread,
            Self::Hot2 | Self::Hot8 | Self::Hot64 => Scenario::Hot,
            Self::Herd256 => Scenario::Herd,
            Self::Processes => {
                let options = BenchOptions::new(Scenario::Processes).contenders(4).tasks(4);
                return Some(options.hold(Duration::ZERO).think(Duration::ZERO).duration(length * 2));
            }
            // Each lock is renewed every third of the ttl, so at least twice.
            Self::Held1k | Self::Held10k => {
                let locks = if matches!(self, Self::Held1k) { 1000 } else { 10_000 };
                let (ttl, seconds) =
                    if has_goal && matches!(self, Self::Held10k) { (30, 20) } else { (10, 7) };
                let options =
                    BenchOptions::new(Scenario::Held).contenders(locks).ttl(Duration::from_secs(ttl));
                return Some(options.duration(Duration::from_secs(seconds).max(length)));
            }
            Self::Crash | Self::Failover => return None,
        };
        let tasks = self.tasks().map_or(1, |(tasks, _)| tasks);
        Some(BenchOptions::new(scenario).contenders(tasks).duration(length))
    }

    /// How often it is measured when the others are measured `rounds` times.
    pub(crate) const fn rounds(self, rounds: usize) -> usize {
        match self {
            Self::Held1k | Self::Held10k | Self::Failover => 1,
            _ => rounds,
        }
    }
}

impl FromStr for Contest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::FULL.into_iter().find(|contest| contest.id() == text).ok_or_else(|| {
            let known = Self::FULL.map(Self::id);
            let advice = match nearest(text, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", known.join(", ")),
            };
            let what = format!("there is no contest `{}`; {advice}", text.escape_debug());
            Error::new(ErrorKind::InvalidOptions, what)
        })
    }
}

impl std::fmt::Display for Contest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_json_and_rounds_are_valid() {
        for contest in Contest::FULL {
            assert_eq!(serde_json::to_value(contest).unwrap(), contest.id());
            for has_goal in [false, true] {
                if let Some(options) = contest.options(Duration::from_millis(300), has_goal) {
                    let params = options.params().unwrap();
                    assert!(
                        !contest.is_held() || params.duration >= params.ttl / 3 * 2,
                        "{contest}: {params:?}"
                    );
                }
            }
            assert_eq!(
                contest.tasks().is_none(),
                contest.is_gap() || contest.is_held() || contest == Contest::Processes
            );
        }
        assert!("hot-9".parse::<Contest>().unwrap_err().to_string().contains("hot-8"));
        assert_eq!("crash".parse::<Contest>().unwrap(), Contest::Crash);
        assert!(Contest::QUICK.iter().all(|contest| Contest::FULL.contains(contest)));
    }
}
