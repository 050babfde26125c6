//! What a comparison of stores found, and what changed between two.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use distlock_bench::compare::{Cell, Changes, Comparison, Spread, goals, slower_than, summary};
use serde::Serialize;

use super::Report;
use super::table::columns;

/// A comparison; its JSON is the file beside the report.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Compared {
    found: Comparison,
    #[serde(skip)]
    page: PathBuf,
}

/// What changed between two comparisons.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Changed(pub(crate) Changes);

impl Compared {
    pub(crate) const fn new(found: Comparison, page: PathBuf) -> Self {
        Self { found, page }
    }
}

impl Report for Compared {
    fn text(&self) -> String {
        let found = &self.found;
        let mut text = columns(&figures(found));
        // Writing to a String can't fail.
        for verdict in summary(found) {
            let _ = write!(
                text,
                "{}: {} ({:.2} {})",
                verdict.wanted, verdict.store, verdict.figure, verdict.unit
            );
            let as_good = verdict.as_good.join(", ");
            let _ = if as_good.is_empty() { writeln!(text) } else { writeln!(text, "; as good: {as_good}") };
        }
        for one in goals(found).iter().filter(|one| !one.is_met()) {
            let bound = if one.is_most { "at most" } else { "at least" };
            let _ = writeln!(
                text,
                "missed: {} on {}: {:.2}, goal {bound} {}",
                one.goal, one.store, one.figure, one.limit
            );
        }
        for store in &found.stores {
            for one in slower_than(found, &store.label) {
                let (contests, peer, why) = (one.contests.join(", "), one.peer, one.why);
                let _ = writeln!(text, "faster on {}: {peer} in {contests}: {why}", store.label);
            }
        }
        for gap in &found.gaps {
            let line = format!("{}: {}", gap.what, gap.why);
            let _ = if gap.failed { writeln!(text, "{}", alarming(&line)) } else { writeln!(text, "{line}") };
        }
        for cell in &found.cells {
            let line = format!("{} on {}: {} violations", cell.contest, cell.store, cell.violations);
            if cell.broke_a_promise() {
                let _ = writeln!(text, "{}", alarming(&line));
            } else if cell.violations > 0 {
                let _ = writeln!(text, "{line}, which the store's guarantees say may happen");
            }
        }
        for why in &found.conditions.noise {
            let _ = writeln!(text, "{}", alarming(&format!("too noisy to compare: {why}")));
        }
        let _ = writeln!(text, "{}", measured(found));
        let _ = writeln!(text, "report: {}", self.page.display());
        text
    }
}

/// How it was measured, and on what.
fn measured(found: &Comparison) -> String {
    let mut parts = Vec::new();
    if let (Some(rounds), Some(length)) = (found.rounds, found.length_ms) {
        parts.push(format!("{rounds} rounds of {length:.0} ms"));
    }
    parts.extend(
        found.durability.as_ref().map(|durability| format!("servers write durably to: {durability}")),
    );
    let conditions = &found.conditions;
    for (what, figure) in [
        ("loopback round trip", conditions.spread(|sample| sample.loopback_us)),
        ("4 KiB and fdatasync", conditions.spread(|sample| sample.fdatasync_us)),
    ] {
        let text = |figure: Spread| {
            format!("{what} {:.1} µs ({:.1}-{:.1})", figure.median, figure.least, figure.most)
        };
        parts.extend(figure.map(text));
    }
    parts.join("; ")
}

/// One row for each store and contest.
fn figures(found: &Comparison) -> Vec<[String; 7]> {
    let mut rows =
        vec![["CONTEST", "STORE", "P50", "/FLOOR", "PER SECOND", "HAND-OFF", "GAP"].map(str::to_owned)];
    for contest in &found.contests {
        for cell in found.cells.iter().filter(|cell| cell.contest == *contest) {
            let figure = |spread: Option<Spread>, decimals: usize, unit: &str| {
                spread.map_or_else(|| "-".to_owned(), |spread| format!("{:.decimals$}{unit}", spread.median))
            };
            rows.push([
                contest.to_string(),
                cell.store.clone(),
                figure(cell.p50_us, 1, " µs"),
                figure(cell.ratio, 2, ""),
                figure(cell.ops_per_s, 0, ""),
                hand_off(cell),
                figure(cell.gap_ms, 0, " ms"),
            ]);
        }
    }
    rows
}

/// Of several processes, those from one to another, and those inside of one.
fn hand_off(cell: &Cell) -> String {
    let figure = |spread: Option<Spread>| spread.map(|spread| format!("{:.1} µs", spread.median));
    match (figure(cell.across_p50_us), figure(cell.inside_p50_us)) {
        (Some(across), Some(inside)) => format!("{across}, inside {inside}"),
        (across, _) => across.or_else(|| figure(cell.handoff_p50_us)).unwrap_or_else(|| "-".to_owned()),
    }
}

impl Report for Changed {
    fn text(&self) -> String {
        let Changes { refused, notes, changes, unchanged, .. } = &self.0;
        let mut text = String::new();
        for why in refused {
            let _ = writeln!(text, "{}", alarming(&format!("not compared: {why}")));
        }
        for note in notes {
            let _ = writeln!(text, "note: {note}");
        }
        for change in changes {
            let unit = change.measure.unit();
            let line = format!(
                "{} on {}: {} {:.2}{unit}, was {:.2}{unit} (×{:.2})",
                change.contest, change.store, change.measure, change.new, change.old, change.factor
            );
            let _ = match change.is_better {
                true => writeln!(text, "better: {line}"),
                false => writeln!(text, "{}", alarming(&format!("worse: {line}"))),
            };
        }
        if refused.is_empty() {
            let _ = writeln!(text, "{} changed beyond noise, {unchanged} did not", changes.len());
        }
        text
    }
}

/// In red, where somebody sees colours and has not asked for none.
fn alarming(line: &str) -> String {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() && !is_plain { format!("\x1b[31m{line}\x1b[0m") } else { line.to_owned() }
}
