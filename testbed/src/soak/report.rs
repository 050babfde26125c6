//! What came of a long run.

use std::fmt;
use std::time::Duration;

use distlock_conformance::history::{self, Event, Promises, Violation, What};

use super::lost_without_fence;
use super::recovery::{self, Recovery};
use crate::lockprobe::Resident;
use crate::nemesis::Step;

/// How much more memory a client may take after all troubles, in per cent of what it took before.
const GROWTH: u64 = 5;

/// What came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The choices' seed.
    pub seed: u64,
    /// The ttl that was asked for.
    pub ttl: Duration,
    /// How many locks were granted.
    pub grants: usize,
    /// How many updates of unfenced resources were lost: the harm that fences prevented elsewhere.
    pub lost_without_fence: usize,
    /// How many of them, in each phase, to a holder that was stopped between its read and its write.
    pub lost_by_stops: Vec<(String, usize)>,
    /// What the nemesis did.
    pub steps: Vec<Step>,
    /// How long a client took to get a lock after the last trouble, if one was asked.
    pub recovery: Option<Duration>,
    /// The same for each probe after the last trouble of each phase, if there was a witness.
    pub recoveries: Vec<Recovery>,
    /// Which locks were still held or waited for when their clients were gone for longer than a lock lives.
    pub left_behind: Vec<String>,
    /// What memory it took before the troubles and after the rest.
    pub memory: Option<(Resident, Resident)>,
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// Everything that happened.
    pub events: Vec<Event>,
}

impl Report {
    pub(super) const fn new(seed: u64, ttl: Duration) -> Self {
        Self {
            seed,
            ttl,
            grants: 0,
            lost_without_fence: 0,
            lost_by_stops: Vec::new(),
            steps: Vec::new(),
            recovery: None,
            recoveries: Vec::new(),
            left_behind: Vec::new(),
            memory: None,
            violations: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Judges a history of its own, and adds it.
    pub(super) fn add(&mut self, steps: Vec<Step>, events: Vec<Event>, promises: Promises) {
        self.grants += events.iter().filter(|event| matches!(event.what, What::Granted { .. })).count();
        self.lost_without_fence += lost_without_fence(&events);
        self.violations.extend(history::check(&events, promises));
        self.steps.extend(steps);
        self.events.extend(events);
    }

    /// Why it failed, or does not count; nothing if all is well.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if !self.violations.is_empty() {
            complaints.push("promises were broken".to_owned());
        }
        if self.grants == 0 {
            complaints.push("nobody got a lock".to_owned());
        }
        for (phase, _) in self.lost_by_stops.iter().filter(|(_, lost)| *lost == 0) {
            complaints.push(format!(
                "void: in phase `{phase}` a holder was stopped beyond its ttl, and no update was lost without a fence"
            ));
        }
        let limit = recovery::limit(self.ttl);
        if let Some(recovery) = self.recovery.filter(|recovery| *recovery > limit) {
            complaints.push(format!("a client worked again after {recovery:?}, not {limit:?}"));
        }
        for Recovery { client, took, limit } in &self.recoveries {
            match took {
                Some(took) if took <= limit => {}
                Some(took) => {
                    complaints.push(format!("`{client}` worked again after {took:?}, not {limit:?}"))
                }
                None => complaints.push(format!("`{client}` did not work again within {limit:?}")),
            }
        }
        complaints.extend(self.left_behind.iter().map(|lock| format!("a record was left behind: {lock}")));
        if let Some((before, after)) =
            self.memory.filter(|(before, after)| after.total() * 100 > before.total() * (100 + GROWTH))
        {
            complaints.push(format!("a client takes {after} after all troubles, and took {before} before"));
        }
        complaints
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} grants, {} events, {} troubles, {} updates lost where no fence was, {} violations",
            self.seed,
            self.grants,
            self.events.len(),
            self.steps.len(),
            self.lost_without_fence,
            self.violations.len()
        )?;
        if let (Some(recovery), Some((before, after))) = (self.recovery, self.memory) {
            writeln!(
                f,
                "  a client worked again after {recovery:.3?}, and takes {after}, after {before} before"
            )?;
        }
        if let Some(slowest) = self.recoveries.iter().filter_map(|one| one.took).max() {
            let again = self.recoveries.iter().filter(|one| one.took.is_some()).count();
            let all = self.recoveries.len();
            writeln!(f, "  {again} of {all} probes worked again, after {slowest:.3?} at most")?;
        }
        for (phase, lost) in &self.lost_by_stops {
            writeln!(f, "  phase `{phase}`: a stopped holder cost {lost} updates where no fence was")?;
        }
        for violation in self.violations.iter().take(20) {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A run that went well.
    fn good() -> Report {
        let recovery =
            |client: &str| Recovery { client: client.to_owned(), took: Some(SECOND * 7), limit: SECOND * 7 };
        Report {
            grants: 1,
            lost_by_stops: vec![("calm".to_owned(), 1), ("jumps".to_owned(), 1)],
            recovery: Some(SECOND * 7),
            recoveries: vec![recovery("calm/probe-0"), recovery("calm/probe-1")],
            memory: Some((takes(1000), takes(1050))),
            ..Report::new(7, SECOND)
        }
    }

    fn takes(all: u64) -> Resident {
        Resident { anonymous: all - 600, program: 600 }
    }

    fn complaint(spoil: impl FnOnce(&mut Report)) -> String {
        let mut report = good();
        spoil(&mut report);
        let complaints = report.complaints();
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        complaints.concat()
    }

    #[test]
    fn a_run_at_its_limits_is_not_complained_of() {
        assert_eq!(good().complaints(), Vec::<String>::new());
    }

    #[test]
    fn a_phase_whose_stop_did_no_harm_makes_the_run_void() {
        let text = complaint(|report| (report.lost_without_fence, report.lost_by_stops[1].1) = (9, 0));
        assert!(text.starts_with("void") && text.contains("`jumps`"), "{text}");
    }

    #[test]
    fn a_probe_that_works_late_or_not_at_all_is_named() {
        let late = complaint(|report| report.recoveries[1].took = Some(SECOND * 8));
        assert!(late.contains("`calm/probe-1` worked again after 8s, not 7s"), "{late}");
        let never = complaint(|report| report.recoveries[0].took = None);
        assert!(never.contains("`calm/probe-0` did not work again"), "{never}");
    }

    #[test]
    fn what_is_left_behind_is_named() {
        let text = complaint(|report| report.left_behind.push("`one`, held by [\"a\"]".to_owned()));
        assert!(text.contains("`one`, held by [\"a\"]"), "{text}");
    }

    #[test]
    fn a_late_witness_its_memory_and_no_lock_at_all_are_complained_of() {
        assert!(complaint(|report| report.recovery = Some(SECOND * 8)).contains("after 8s, not 7s"));
        assert!(complaint(|report| report.memory = Some((takes(1000), takes(1051)))).contains("1051 KiB"));
        assert!(complaint(|report| report.grants = 0).contains("nobody got a lock"));
    }
}
