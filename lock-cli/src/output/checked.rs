//! The outcome of `check`.

use std::collections::BTreeSet;

use distlock_conformance::history::{CHECKS, Event, Promises, Violation, What};
use serde::Serialize;

use super::Report;
use super::table::columns;

/// What a history holds, and which promises it breaks.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    events: usize,
    keys: usize,
    processes: usize,
    grants: usize,
    checks: Vec<Check>,
    violations: Vec<Broken>,
}

#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    promise: &'static str,
    /// `null` if the check was left out.
    violations: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Broken {
    check: &'static str,
    key: String,
    text: String,
}

impl Checked {
    pub(crate) fn new(events: &[Event], promises: Promises, violations: Vec<Violation>) -> Self {
        let keys: BTreeSet<&str> = events.iter().map(|event| event.key.as_str()).collect();
        let processes: BTreeSet<u32> = events.iter().map(|event| event.process).collect();
        let checks = CHECKS.map(|(check, promise)| {
            let broken = violations.iter().filter(|violation| violation.check == check).count();
            let left_out = !promises.exclusion && ["H1", "H7"].contains(&check);
            Check { check, promise, violations: (!left_out).then_some(broken) }
        });
        let broken = |violation: Violation| {
            let Violation { check, key, text, .. } = violation;
            Broken { check, key, text }
        };
        Self {
            events: events.len(),
            keys: keys.iter().filter(|key| !key.is_empty()).count(),
            processes: processes.len(),
            grants: events.iter().filter(|event| matches!(event.what, What::Granted { .. })).count(),
            checks: checks.into(),
            violations: violations.into_iter().map(broken).collect(),
        }
    }
}

impl Report for Checked {
    fn text(&self) -> String {
        let rows: Vec<[String; 3]> = self
            .checks
            .iter()
            .map(|check| {
                let found = match check.violations {
                    None => "left out".to_owned(),
                    Some(0) => "kept".to_owned(),
                    Some(times) => format!("broken ({times})"),
                };
                [check.check.to_owned(), found, check.promise.to_owned()]
            })
            .collect();
        let mut text = format!(
            "{} events, {} keys, {} processes, {} grants\n{}",
            self.events,
            self.keys,
            self.processes,
            self.grants,
            columns(&rows)
        );
        for Broken { check, key, text: what } in &self.violations {
            text.push_str(&format!("{check} `{key}`: {what}\n"));
        }
        text
    }
}
