//! Runs the suite: as a test binary, or for a program that wants the report.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use libtest_mimic::{Arguments, Completion, Trial};

use crate::case::{Case, Profile};
use crate::cases;
use crate::execute::execute;
use crate::holder;
use crate::report::{Outcome, Report, Verdict};
use crate::subject::Subject;

/// Set to `1`, a store that can't be reached fails the cases instead of having them ignored.
const REQUIRE: &str = "CONFORMANCE_REQUIRE";
/// Decides the random choices of all cases, to repeat a failure.
const SEED: &str = "CONFORMANCE_SEED";

/// Runs the suite on `subject`, as the `main` of a test with `harness = false`.
///
/// It takes the usual arguments of a test binary (`--list`, a filter, `--exact`, `--test-threads`).
/// Cases whose needs the store does not meet show as ignored, with the reason. The suite starts this
/// program again as other processes; so nothing may be printed before this call.
pub fn main(subject: impl Subject) -> ExitCode {
    let subject: Arc<dyn Subject> = Arc::new(subject);
    if let Some(code) = holder::serve_if_asked(&subject) {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // Most cases wait for time to pass, so more of them than cores fit side by side.
    arguments.test_threads.get_or_insert_with(threads);
    let suite = Arc::new(Suite::new(subject, !arguments.list));
    if !arguments.list {
        eprintln!("{SEED}={}", suite.seed);
    }
    let trials = cases::all().map(|case| trial(&suite, case)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(suite: &Arc<Suite>, case: &'static Case) -> Trial {
    let on = Arc::clone(suite);
    let run = move || match on.run(case).verdict {
        Verdict::Passed => Ok(Completion::Completed),
        Verdict::Ignored(reason) => Ok(Completion::ignored_with(reason)),
        Verdict::Failed(reason) => Err(reason.into()),
    };
    // Not flagged as ignored beforehand: when it is run, it says why.
    Trial::ignorable_test(case.id, run).with_kind(suite.profile.info.name)
}

/// Which cases to run, and how.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// Only cases whose id contains this.
    pub filter: Option<String>,
    /// How many cases at a time. Default: four for each core.
    pub threads: Option<usize>,
    /// Decides the random choices of all cases. Default: a random one, shown with each failure.
    pub seed: Option<u64>,
}

impl RunOptions {
    /// Runs only cases whose id contains `filter`.
    #[must_use]
    pub fn filter(mut self, filter: impl Into<String>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// Runs this many cases at a time.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Repeats the random choices of an earlier run.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

/// Runs the suite on `subject` and reports. Blocks until it is over; each outcome is also handed to
/// `progress` as soon as it is there.
///
/// The suite starts this program again, with the same arguments, as other processes. There this call
/// never returns: it serves the suite on standard input and output and exits. So nothing may be
/// printed before it, and a program must reach it with the same subject.
#[must_use]
pub fn run(subject: impl Subject, options: &RunOptions, progress: impl Fn(&Outcome) + Sync) -> Report {
    let subject: Arc<dyn Subject> = Arc::new(subject);
    if holder::serve_if_asked(&subject).is_some() {
        std::process::exit(0);
    }
    let mut suite = Suite::new(subject, true);
    suite.seed = options.seed.unwrap_or(suite.seed);
    let wanted =
        |case: &&Case| options.filter.as_ref().is_none_or(|filter| case.id.contains(filter.as_str()));
    let cases: Vec<&Case> = cases::all().filter(wanted).collect();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = suite.run(case);
            progress(&outcome);
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.unwrap_or_else(threads).max(1) {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|outcome| cases.iter().position(|case| case.id == outcome.id));
    Report { store: suite.profile.info.name, outcomes }
}

/// The ids of all cases, in the suite's order.
pub fn case_ids() -> impl Iterator<Item = &'static str> {
    cases::all().map(|case| case.id)
}

struct Suite {
    subject: Arc<dyn Subject>,
    profile: Profile,
    missing: Option<String>,
    /// Whether a store that is not available fails the cases.
    require: bool,
    seed: u64,
    /// Held exclusively by cases that must run alone.
    machine: RwLock<()>,
}

impl Suite {
    fn new(subject: Arc<dyn Subject>, ask: bool) -> Self {
        let missing = if ask { subject.available().err() } else { None };
        let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        Self {
            profile: Profile::of(&*subject),
            subject,
            missing,
            require: std::env::var(REQUIRE).is_ok_and(|value| value == "1"),
            // JSON readers that keep numbers as doubles must give back the same seed.
            seed: seed.unwrap_or_else(|| fastrand::u64(..1 << 53)),
            machine: RwLock::new(()),
        }
    }

    fn run(&self, case: &Case) -> Outcome {
        if let Some(missing) = &self.missing {
            return self.without_store(case, missing);
        }
        if case.alone {
            let _alone = self.machine.write().unwrap_or_else(PoisonError::into_inner);
            execute(case, &self.subject, self.seed)
        } else {
            let _beside = self.machine.read().unwrap_or_else(PoisonError::into_inner);
            execute(case, &self.subject, self.seed)
        }
    }

    fn without_store(&self, case: &Case, missing: &str) -> Outcome {
        let verdict = if self.require {
            Verdict::Failed(format!("the store is not available, and {REQUIRE}=1: {missing}"))
        } else {
            Verdict::Ignored(format!("THE STORE IS NOT AVAILABLE: {missing}"))
        };
        Outcome { id: case.id, since: case.since, verdict, took: std::time::Duration::ZERO, seed: self.seed }
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(4, std::num::NonZero::get) * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::tests::Memory;

    #[test]
    fn a_missing_store_fails_where_it_is_required_and_is_loud_elsewhere() {
        let case = cases::all().next().unwrap();
        let mut suite = Suite::new(Arc::new(Memory::missing()), true);
        for (require, wanted) in [(true, "not available, and"), (false, "THE STORE IS NOT AVAILABLE")] {
            suite.require = require;
            match suite.run(case).verdict {
                Verdict::Failed(reason) if require => assert!(reason.contains(wanted), "{reason}"),
                Verdict::Ignored(reason) if !require => assert!(reason.contains(wanted), "{reason}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_run_reports_in_the_suite_s_order_what_the_filter_lets_through() {
        let report = run(Memory::default(), &RunOptions::default().filter("limits::").threads(3), |_| ());
        let wanted: Vec<_> = case_ids().filter(|id| id.starts_with("limits::")).collect();
        assert_eq!(report.outcomes.iter().map(|outcome| outcome.id).collect::<Vec<_>>(), wanted);
        assert!(report.is_success(), "{}", report.render(crate::Format::Text));
    }
}
