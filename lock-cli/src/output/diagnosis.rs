//! What `doctor` finds.

use std::time::Duration;

use distlock::Health;
use serde::Serialize;

use super::Report;
use super::table::columns;

/// The findings about a store.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    store: Option<&'static str>,
    url: String,
    version: Option<String>,
    checks: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    result: Outcome,
    what: String,
    fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Ok,
    Warning,
    Failed,
}

impl Diagnosis {
    /// Of the store at this URL, which shows no password.
    pub(crate) const fn of(url: String) -> Self {
        Self { store: None, url, version: None, checks: Vec::new() }
    }

    /// It is a store of this kind.
    pub(crate) const fn is_of(&mut self, store: &'static str) {
        self.store = Some(store);
    }

    /// What the backend's own probe found.
    pub(crate) fn probed(&mut self, health: Health) {
        let server = health.version.as_deref().unwrap_or("the store");
        let millis = health.round_trip.max(Duration::from_micros(1)).as_secs_f64() * 1000.0;
        let reached = format!("{server} answers in {millis:.1} ms");
        self.fine("reach", &reached);
        self.version = health.version;
        for warning in &health.warnings {
            self.warn("settings", &warning.what, &warning.fix);
        }
        self.fine("settings", "nothing is known to endanger locks");
    }

    /// Notes that a check found nothing, unless something was found by it.
    pub(crate) fn fine(&mut self, check: &'static str, what: &str) {
        if !self.checks.iter().any(|found| found.check == check) {
            self.checks.push(Check { check, result: Outcome::Ok, what: what.to_owned(), fix: None });
        }
    }

    /// Adds something that endangers locks.
    pub(crate) fn warn(&mut self, check: &'static str, what: &str, fix: &str) {
        self.add(check, Outcome::Warning, what, fix);
    }

    /// Adds something that can't be done.
    pub(crate) fn failed(&mut self, check: &'static str, what: &str, fix: &str) {
        self.add(check, Outcome::Failed, what, fix);
    }

    /// Whether anything was found.
    pub(crate) fn has_findings(&self) -> bool {
        self.checks.iter().any(|check| check.result != Outcome::Ok)
    }

    fn add(&mut self, check: &'static str, result: Outcome, what: &str, fix: &str) {
        self.checks.retain(|one| one.check != check || one.result != Outcome::Ok);
        self.checks.push(Check { check, result, what: what.to_owned(), fix: Some(fix.to_owned()) });
    }
}

impl Report for Diagnosis {
    fn text(&self) -> String {
        let mut rows = Vec::new();
        for check in &self.checks {
            let result = match check.result {
                Outcome::Ok => "ok",
                Outcome::Warning => "warning",
                Outcome::Failed => "FAILED",
            };
            rows.push([check.check.to_owned(), result.to_owned(), check.what.clone()]);
            rows.extend(check.fix.iter().map(|fix| [String::new(), "remedy:".to_owned(), fix.clone()]));
        }
        columns(&rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_with_their_remedies() {
        let mut diagnosis = Diagnosis::of("redis://h".to_owned());
        let health = Health::new(Some("Redis 7".to_owned()), Duration::from_micros(300));
        diagnosis.probed(health.warn("it forgets", "make it remember"));
        assert_eq!(
            diagnosis.text(),
            "reach     ok       Redis 7 answers in 0.3 ms\n\
             settings  warning  it forgets\n          remedy:  make it remember\n"
        );
        assert!(diagnosis.has_findings());
    }

    #[test]
    fn what_is_found_later_replaces_that_all_is_well() {
        let mut diagnosis = Diagnosis::of("memory:".to_owned());
        diagnosis.probed(Health::new(None, Duration::ZERO));
        assert!(!diagnosis.has_findings());
        diagnosis.warn("settings", "alone", "share it");
        let json = serde_json::to_value(&diagnosis).unwrap();
        assert_eq!(json["checks"].as_array().unwrap().len(), 2);
        assert_eq!(
            (&json["checks"][1]["result"], &json["checks"][1]["fix"]),
            (&"warning".into(), &"share it".into())
        );
    }
}
