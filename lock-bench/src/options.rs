//! How to measure.

use std::time::Duration;

use distlock::{Error, ErrorKind, LockOptions, Result, WaitPolicy};
use serde::{Serialize, Serializer};

use crate::scenario::Scenario;

/// How to measure. What is not set is as the scenario has it.
///
/// ```
/// use std::time::Duration;
/// use distlock_bench::{BenchOptions, Scenario};
/// let options = BenchOptions::new(Scenario::Hot).contenders(16).duration(Duration::from_secs(2)).floor(true);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BenchOptions {
    /// What is measured.
    pub scenario: Scenario,
    /// How many tasks, held locks or processes; from 1 to 60 000, and at most 256 processes.
    pub contenders: Option<usize>,
    /// For how long, without the warm-up; from 100 ms to 1 h. The floor gets as long again.
    pub duration: Option<Duration>,
    /// How long a lock is held each time.
    pub hold: Option<Duration>,
    /// How long a contender pauses between two holds.
    pub think: Option<Duration>,
    /// The ttl of every lock.
    pub ttl: Option<Duration>,
    /// How many tasks of each process want the lock, from 1 to 64; only for `processes`. Default: 1.
    pub tasks: Option<usize>,
    /// Whether to measure the bare statements of the same operation too. Not for `held` and
    /// `processes`, and only for stores whose statements are known here. Default: no.
    pub floor: bool,
    /// Whether to let as many contenders take the store's own lock too; only for `hot`, and for stores that have
    /// one (etcd's lock service). Default: no.
    pub peer: bool,
    /// Says how many bytes of heap are in use, in a program whose allocator counts them. Default: none.
    pub heap: Option<fn() -> usize>,
}

/// What was measured, with every default filled in. Durations are serialised in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Params {
    /// Tasks, held locks or processes.
    pub contenders: usize,
    /// How long was measured.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// How long a lock was held each time.
    #[serde(rename = "hold_ms", serialize_with = "millis")]
    pub hold: Duration,
    /// How long a contender paused between two holds.
    #[serde(rename = "think_ms", serialize_with = "millis")]
    pub think: Duration,
    /// The ttl asked for.
    #[serde(rename = "ttl_ms", serialize_with = "millis")]
    pub ttl: Duration,
    /// Tasks in each process, if there are several.
    #[serde(rename = "tasks_per_process", skip_serializing_if = "is_one")]
    pub tasks: usize,
}

impl BenchOptions {
    /// The scenario with its own numbers, without a floor.
    #[must_use]
    pub const fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            contenders: None,
            duration: None,
            hold: None,
            think: None,
            ttl: None,
            tasks: None,
            floor: false,
            peer: false,
            heap: None,
        }
    }

    /// Sets how many tasks, held locks or processes.
    #[must_use]
    pub const fn contenders(mut self, contenders: usize) -> Self {
        self.contenders = Some(contenders);
        self
    }

    /// Sets for how long to measure.
    #[must_use]
    pub const fn duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// Sets how long a lock is held each time.
    #[must_use]
    pub const fn hold(mut self, hold: Duration) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Sets how long a contender pauses between two holds.
    #[must_use]
    pub const fn think(mut self, think: Duration) -> Self {
        self.think = Some(think);
        self
    }

    /// Sets the ttl of every lock.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how many tasks of each process want the lock.
    #[must_use]
    pub const fn tasks(mut self, tasks: usize) -> Self {
        self.tasks = Some(tasks);
        self
    }

    /// Sets whether to measure the bare statements too.
    #[must_use]
    pub const fn floor(mut self, floor: bool) -> Self {
        self.floor = floor;
        self
    }

    /// Sets whether to measure the store's own locks too.
    #[must_use]
    pub const fn peer(mut self, peer: bool) -> Self {
        self.peer = peer;
        self
    }

    /// Sets what counts the heap.
    #[must_use]
    pub const fn heap(mut self, in_use: fn() -> usize) -> Self {
        self.heap = Some(in_use);
        self
    }

    /// Fills in the defaults and checks the result.
    ///
    /// # Errors
    /// `InvalidOptions`, with the limit.
    pub fn params(&self) -> Result<Params> {
        let defaults = self.scenario.defaults();
        let params = Params {
            contenders: self.contenders.unwrap_or(defaults.contenders),
            duration: self.duration.unwrap_or(defaults.duration),
            hold: self.hold.unwrap_or(defaults.hold),
            think: self.think.unwrap_or(defaults.think),
            ttl: self.ttl.unwrap_or(defaults.ttl),
            tasks: self.tasks.unwrap_or(1),
        };
        let most = if self.scenario == Scenario::Processes { 256 } else { 60_000 };
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(3600));
        if params.contenders == 0 || params.contenders > most {
            return invalid(format!(
                "{} contenders can't be had in `{}`; give 1 to {most}",
                params.contenders, self.scenario
            ));
        }
        if params.duration < shortest || params.duration > longest {
            return invalid(format!(
                "{:?} is not a time to measure for; give {shortest:?} to {longest:?}",
                params.duration
            ));
        }
        if params.hold > params.duration || params.think > params.duration {
            return invalid(format!(
                "a hold of {:?} and a pause of {:?} don't fit into {:?}; make them shorter or measure longer",
                params.hold, params.think, params.duration
            ));
        }
        if params.tasks == 0 || params.tasks > 64 {
            return invalid(format!("{} tasks in a process can't be had; give 1 to 64", params.tasks));
        }
        if params.tasks > 1 && self.scenario != Scenario::Processes {
            return invalid(format!("`{}` has one process; give contenders instead", self.scenario));
        }
        if self.floor && matches!(self.scenario, Scenario::Held | Scenario::Processes) {
            return invalid(format!("`{}` has no floor; leave it out", self.scenario));
        }
        if self.peer && self.scenario != Scenario::Hot {
            return invalid(format!("`{}` has no peer; measure it in `hot`", self.scenario));
        }
        Ok(params)
    }
}

impl Params {
    /// The lock options of every contender. No wait is for ever, so that a run ends.
    pub(crate) fn lock_options(&self) -> LockOptions {
        let patience = self.duration + Duration::from_secs(60);
        LockOptions::default().ttl(self.ttl).wait(WaitPolicy::UpTo(patience))
    }
}

fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64() * 1e3)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_one(tasks: &usize) -> bool {
    *tasks == 1
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOptions, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_scenarios() {
        let params = BenchOptions::new(Scenario::Herd).params().unwrap();
        assert_eq!((params.contenders, params.duration), (256, Duration::from_secs(5)));
        let json = serde_json::to_value(params).unwrap();
        assert_eq!(json["duration_ms"], 5000.0);
    }

    #[test]
    fn nonsense_is_refused_with_the_limit() {
        let hot = BenchOptions::new(Scenario::Hot);
        for (options, part) in [
            (hot.clone().contenders(0), "1 to 60000"),
            (BenchOptions::new(Scenario::Processes).contenders(300), "1 to 256"),
            (hot.clone().duration(Duration::ZERO), "100ms"),
            (hot.hold(Duration::from_secs(9)), "9s"),
            (BenchOptions::new(Scenario::Held).floor(true), "no floor"),
            (BenchOptions::new(Scenario::Spread).peer(true), "no peer"),
            (BenchOptions::new(Scenario::Herd).tasks(4), "one process"),
            (BenchOptions::new(Scenario::Processes).tasks(0), "1 to 64"),
        ] {
            let error = options.params().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOptions);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
