//! What came of a run, for people and machines.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

/// What came of all cases of a run on one store.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The backend's name.
    pub store: &'static str,
    /// The outcomes, in the suite's order.
    pub outcomes: Vec<Outcome>,
}

/// What came of one case.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The case, `group::name`.
    pub id: &'static str,
    /// The version of the suite that brought the case.
    pub since: &'static str,
    /// Whether the store kept the promise.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub took: Duration,
    /// The seed of its random choices.
    pub seed: u64,
}

/// Whether a store kept the promise that a case tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "a new verdict must break every caller")]
pub enum Verdict {
    /// It did.
    Passed,
    /// It did not, and how.
    Failed(String),
    /// It was not tested, and why not.
    Ignored(String),
}

/// How to write a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// One line a case, and a summary.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// JUnit's XML, which most CI systems read.
    Junit,
    /// A Markdown table, for documentation.
    Markdown,
}

fn seconds<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(took.as_secs_f64())
}

impl Report {
    /// Whether no case failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failed() == 0
    }

    /// How many cases passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Passed).count()
    }

    /// How many cases failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed(_))).count()
    }

    /// How many cases were not run.
    #[must_use]
    pub fn ignored(&self) -> usize {
        self.outcomes.len() - self.passed() - self.failed()
    }

    /// The report in one of its forms, with a final line break.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Json => self.json(),
            Format::Junit => self.junit(),
            Format::Markdown => self.markdown(),
        }
    }

    // Writing to a String can't fail, so the results of `writeln!` are dropped below.

    fn text(&self) -> String {
        let mut text = String::new();
        for outcome in &self.outcomes {
            let seconds = outcome.took.as_secs_f64();
            let _ = match &outcome.verdict {
                Verdict::Passed => writeln!(text, "ok      {} ({seconds:.1} s)", outcome.id),
                Verdict::Ignored(reason) => writeln!(text, "ignored {} ({reason})", outcome.id),
                Verdict::Failed(reason) => {
                    let reason = reason.replace('\n', "\n        ");
                    writeln!(text, "FAILED  {} (seed {})\n        {reason}", outcome.id, outcome.seed)
                }
            };
        }
        let (passed, failed, ignored) = (self.passed(), self.failed(), self.ignored());
        let _ = writeln!(text, "{}: {passed} passed, {failed} failed, {ignored} ignored", self.store);
        text
    }

    fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a report is plain data");
        text.push('\n');
        text
    }

    fn junit(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let time: f64 = self.outcomes.iter().map(|outcome| outcome.took.as_secs_f64()).sum();
        let _ = writeln!(
            text,
            "<testsuite name=\"distlock-conformance {}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{time:.3}\">",
            xml(self.store),
            self.outcomes.len(),
            self.failed(),
            self.ignored()
        );
        for outcome in &self.outcomes {
            let (group, name) = outcome.id.split_once("::").unwrap_or(("", outcome.id));
            let inner = match &outcome.verdict {
                Verdict::Passed => String::new(),
                Verdict::Failed(reason) => format!("<failure>{}</failure>", xml(reason)),
                Verdict::Ignored(reason) => format!("<skipped message=\"{}\"/>", xml(reason)),
            };
            let seconds = outcome.took.as_secs_f64();
            let _ = writeln!(
                text,
                "  <testcase classname=\"{group}\" name=\"{name}\" time=\"{seconds:.3}\">{inner}</testcase>"
            );
        }
        text.push_str("</testsuite>\n");
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!("| case | {} |\n|---|---|\n", self.store);
        for outcome in &self.outcomes {
            let verdict = match &outcome.verdict {
                Verdict::Passed => "yes".to_owned(),
                Verdict::Failed(reason) => format!("**no**: {}", reason.lines().next().unwrap_or_default()),
                Verdict::Ignored(reason) => format!("– ({reason})"),
            };
            let _ = writeln!(text, "| {} | {} |", outcome.id, verdict.replace('|', "\\|"));
        }
        text
    }
}

/// Text as XML can carry it.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let outcome =
            |id, verdict| Outcome { id, since: "0.1.0", verdict, took: Duration::from_millis(1500), seed: 7 };
        Report {
            store: "toy",
            outcomes: vec![
                outcome("a::one", Verdict::Passed),
                outcome("a::two", Verdict::Failed("1 < 2 | \u{1} & \"so\"\nmore".to_owned())),
                outcome("b::three", Verdict::Ignored("no queue".to_owned())),
            ],
        }
    }

    #[test]
    fn text_names_what_failed_and_ends_with_the_counts() {
        let text = report().render(Format::Text);
        assert!(
            text.contains("FAILED  a::two (seed 7)\n        1 < 2") && text.contains("        more"),
            "{text}"
        );
        assert!(text.ends_with("toy: 1 passed, 1 failed, 1 ignored\n"), "{text}");
    }

    #[test]
    fn json_reads_back() {
        let value: serde_json::Value = serde_json::from_str(&report().render(Format::Json)).unwrap();
        assert_eq!(value["outcomes"][1]["verdict"], "failed");
        assert_eq!(value["outcomes"][2]["reason"], "no queue");
        assert_eq!(value["outcomes"][0]["seconds"], 1.5);
    }

    #[test]
    fn xml_and_markdown_escape_what_they_must() {
        let junit = report().render(Format::Junit);
        assert!(
            junit.contains("<failure>1 &lt; 2 | \u{fffd} &amp; &quot;so&quot;\nmore</failure>"),
            "{junit}"
        );
        assert!(junit.contains("failures=\"1\" skipped=\"1\""), "{junit}");
        assert!(report().render(Format::Markdown).contains("| a::two | **no**: 1 < 2 \\|"));
    }
}
