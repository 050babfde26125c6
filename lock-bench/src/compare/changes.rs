//! What differs between two comparisons by more than noise.

use std::fmt;

use serde::Serialize;

use super::cell::Cell;
use super::comparison::Comparison;
use super::contest::Contest;
use super::sample::Sample;
use super::spread::Spread;
use crate::figures::{per, rounded};

/// Less is no change, however steady the figures are.
const LEAST_CHANGE: f64 = 0.05;
/// The same of a figure that was measured once, whose spread nobody knows.
const LEAST_CHANGE_OF_ONE: f64 = 0.25;
/// Loopback round trips that differ by more than this mean another machine.
const SAME_MACHINE: f64 = 0.25;
/// The same of `fdatasync`, which varies more.
const SAME_DISK: f64 = 0.5;

/// A figure that comparisons are held against each other by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Measure {
    /// Median time of a pair.
    P50,
    /// Pairs in a second.
    Throughput,
    /// Median time of a hand-off.
    HandOff,
    /// Commands for each operation.
    Commands,
    /// Time without a holder after a crash or failover.
    Gap,
    /// Median time as a multiple of the floor's.
    Ratio,
    /// Pairs in a second as a multiple of the floor's.
    ThroughputRatio,
}

/// A figure that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The store's label.
    pub store: String,
    /// In what.
    pub contest: Contest,
    /// Which figure.
    pub measure: Measure,
    /// What it was.
    pub old: f64,
    /// What it is.
    pub new: f64,
    /// The new one as a multiple of the old one.
    pub factor: f64,
    /// Whether it is better now.
    pub is_better: bool,
}

/// What differs between two comparisons.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Changes {
    /// Why they can't be compared; then there are no changes.
    pub refused: Vec<String>,
    /// What to keep in mind about them.
    pub notes: Vec<String>,
    /// What changed beyond noise.
    pub changes: Vec<Change>,
    /// How many figures did not.
    pub unchanged: usize,
}

impl Measure {
    const ABSOLUTE: [Self; 5] = [Self::P50, Self::Throughput, Self::HandOff, Self::Commands, Self::Gap];
    /// What another machine leaves as it is.
    const RELATIVE: [Self; 3] = [Self::Ratio, Self::ThroughputRatio, Self::Commands];

    const fn of(self, cell: &Cell) -> Option<Spread> {
        match self {
            Self::P50 => cell.p50_us,
            Self::Throughput => cell.ops_per_s,
            Self::HandOff => cell.handoff_p50_us,
            Self::Commands => cell.commands_per_op,
            Self::Gap => cell.gap_ms,
            Self::Ratio => cell.ratio,
            Self::ThroughputRatio => cell.ops_ratio,
        }
    }

    /// Its unit, with a space before it, or nothing.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::P50 | Self::HandOff => " µs",
            Self::Throughput => " /s",
            Self::Gap => " ms",
            Self::Commands | Self::Ratio | Self::ThroughputRatio => "",
        }
    }

    const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::ThroughputRatio)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::P50 => "p50",
            Self::Throughput => "throughput",
            Self::HandOff => "hand-off p50",
            Self::Commands => "commands per operation",
            Self::Gap => "time without a holder",
            Self::Ratio => "p50 / floor",
            Self::ThroughputRatio => "throughput / floor",
        })
    }
}

/// What changed from one comparison to the next by more than noise: the rounds of one don't reach those of the
/// other, and the medians differ by more than a twentieth and by more than the mean of both spreads, since few rounds
/// lie apart by chance, too. Of figures that were measured once, by more than a quarter. If the machine or its disk
/// differs, only what is relative to the floor is compared; if either was noisy, or if rounds were of another length
/// or servers wrote otherwise, nothing.
#[must_use]
pub fn changes(old: &Comparison, new: &Comparison) -> Changes {
    let mut found =
        Changes { refused: refusals(old, new), notes: Vec::new(), changes: Vec::new(), unchanged: 0 };
    if !found.refused.is_empty() {
        return found;
    }
    let measures = match other_machine(old, new) {
        None => &Measure::ABSOLUTE[..],
        Some(difference) => {
            found.notes.push(format!("{difference}; only what is relative to the floor is compared"));
            &Measure::RELATIVE[..]
        }
    };
    for after in &new.cells {
        match old.cell(&after.store, after.contest) {
            None => found.notes.push(format!("{} on {} is new", after.contest, after.store)),
            Some(before) => found.compare(before, after, measures),
        }
    }
    for before in old.cells.iter().filter(|cell| new.cell(&cell.store, cell.contest).is_none()) {
        found.notes.push(format!("{} on {} is gone", before.contest, before.store));
    }
    found
}

impl Changes {
    fn compare(&mut self, before: &Cell, after: &Cell, measures: &[Measure]) {
        for measure in measures {
            let (Some(old), Some(new)) = (measure.of(before), measure.of(after)) else { continue };
            if !differs(old, new, before.rounds.min(after.rounds)) {
                self.unchanged += 1;
                continue;
            }
            self.changes.push(Change {
                store: after.store.clone(),
                contest: after.contest,
                measure: *measure,
                old: old.median,
                new: new.median,
                factor: rounded(per(new.median, old.median)),
                is_better: (new.median > old.median) == measure.more_is_better(),
            });
        }
    }
}

fn differs(old: Spread, new: Spread, rounds: usize) -> bool {
    let least = if rounds > 1 { LEAST_CHANGE } else { LEAST_CHANGE_OF_ONE };
    let chance = f64::midpoint(old.width(), new.width());
    let change = per((new.median - old.median).abs(), old.median.min(new.median));
    change > least.max(chance) && !old.meets(&new)
}

fn refusals(old: &Comparison, new: &Comparison) -> Vec<String> {
    let mut refusals = Vec::new();
    for (name, comparison) in [("old", old), ("new", new)] {
        let noise = &comparison.conditions.noise;
        refusals
            .extend(noise.iter().map(|why| format!("the machine was too noisy for the {name} one: {why}")));
    }
    if old.optimised != new.optimised {
        refusals.push("one was built with optimisation and the other without".to_owned());
    }
    // A report of an older version does not say.
    if let (Some(before), Some(after)) = (old.length_ms, new.length_ms)
        && (before - after).abs() > 0.5
    {
        refusals.push(format!(
            "rounds took {after:.0} ms, and {before:.0} ms before; measure with the same --round"
        ));
    }
    if let (Some(before), Some(after)) = (&old.durability, &new.durability)
        && before != after
    {
        refusals.push(format!("servers wrote as durably as `{after}` says, and as `{before}` before"));
    }
    refusals
}

fn other_machine(old: &Comparison, new: &Comparison) -> Option<String> {
    let (before, after) = (&old.conditions, &new.conditions);
    if before.processor != after.processor || before.cores != after.cores {
        return Some(format!(
            "the machine is another one ({} × {}, was {} × {})",
            after.cores, after.processor, before.cores, before.processor
        ));
    }
    let slower = |what: &str, figure: fn(&Sample) -> f64, most: f64| {
        let (before, after) = (before.spread(figure)?.median, after.spread(figure)?.median);
        let difference = per((after - before).abs(), before.min(after));
        (difference > most).then(|| format!("{what} took {after:.1} µs, and {before:.1} µs before"))
    };
    slower("a loopback round trip", |sample| sample.loopback_us, SAME_MACHINE)
        .or_else(|| slower("fdatasync", |sample| sample.fdatasync_us, SAME_DISK))
}

#[cfg(test)]
mod tests {
    use super::super::cell::Rounds;
    use super::super::conditions::Conditions;
    use super::*;

    fn comparison(p50s: &[f64], others: f64) -> Comparison {
        let sample = Sample { loopback_us: 20.0, fdatasync_us: 90.0, others, slowdown: 0.0 };
        let mut comparison = Comparison::new(Conditions::of(vec![sample; 5]), Vec::new(), Vec::new());
        let mut cell =
            Rounds { gaps_ms: vec![0.0; p50s.len()], ..Rounds::default() }.cell("a", Contest::Hot8, false);
        cell.gap_ms = None;
        cell.p50_us = Spread::of(p50s.iter().copied());
        cell.ratio = Spread::of(p50s.iter().map(|p50| p50 / 50.0));
        comparison.cells.push(cell);
        comparison
    }

    #[test]
    fn only_what_lies_outside_of_the_spread_is_a_change() {
        let old = comparison(&[100.0, 104.0, 109.0], 0.0);
        for (new, changed) in [
            ([101.0, 105.0, 110.0], false),
            ([108.0, 130.0, 140.0], false),
            ([110.0, 113.0, 115.0], true),
            ([96.0, 98.0, 99.0], true),
        ] {
            let found = changes(&old, &comparison(&new, 0.0));
            assert_eq!(found.changes.len(), usize::from(changed), "{new:?}");
            assert_eq!(found.unchanged, usize::from(!changed));
            assert!(found.changes.iter().all(|change| change.is_better == (change.new < change.old)));
        }
        let steady = comparison(&[100.0, 100.0, 100.0], 0.0);
        assert!(changes(&steady, &comparison(&[103.0; 3], 0.0)).changes.is_empty(), "too little");
        assert!(
            changes(&comparison(&[100.0], 0.0), &comparison(&[120.0], 0.0)).changes.is_empty(),
            "measured once"
        );
        assert_eq!(changes(&comparison(&[100.0], 0.0), &comparison(&[130.0], 0.0)).changes.len(), 1);
    }

    #[test]
    fn rounds_that_lie_apart_by_chance_are_no_change() {
        // Disjoint, and 15 % apart; but each set of rounds is as wide as that.
        let old = comparison(&[100.0, 110.0, 118.0], 0.0);
        let found = changes(&old, &comparison(&[119.0, 126.0, 142.0], 0.0));
        assert!(found.changes.is_empty(), "{found:?}");
        assert_eq!(changes(&old, &comparison(&[132.0, 138.0, 142.0], 0.0)).changes.len(), 1);
    }

    #[test]
    fn another_length_or_durability_refuses_and_another_disk_leaves_ratios() {
        let old = Comparison {
            length_ms: Some(400.0),
            durability: Some("disk".to_owned()),
            ..comparison(&[100.0; 3], 0.0)
        };
        let slower = Comparison { cells: comparison(&[200.0; 3], 0.0).cells, ..old.clone() };
        assert_eq!(changes(&old, &slower).changes[0].measure, Measure::P50);
        let longer = Comparison { length_ms: Some(500.0), ..slower.clone() };
        assert!(changes(&old, &longer).refused[0].contains("500 ms"));
        let lax = Comparison { durability: Some("process".to_owned()), ..slower.clone() };
        assert!(changes(&old, &lax).refused[0].contains("`process`"));
        let silent = Comparison { durability: None, ..slower.clone() };
        assert!(changes(&old, &silent).refused.is_empty(), "an older report");
        let mut other_disk = slower;
        for sample in &mut other_disk.conditions.samples {
            sample.fdatasync_us *= 2.0;
        }
        let found = changes(&old, &other_disk);
        assert!(found.notes[0].contains("fdatasync"), "{found:?}");
        assert_eq!(found.changes[0].measure, Measure::Ratio);
    }

    #[test]
    fn noise_refuses_and_another_machine_leaves_ratios() {
        let quiet = comparison(&[100.0; 3], 0.0);
        let refused = changes(&quiet, &comparison(&[200.0; 3], 0.6));
        assert!(refused.changes.is_empty() && refused.refused[0].contains("new"), "{refused:?}");
        let mut slower = comparison(&[200.0; 3], 0.0);
        for sample in &mut slower.conditions.samples {
            sample.loopback_us *= 2.0;
        }
        let found = changes(&quiet, &slower);
        assert_eq!(found.changes.len(), 1, "{found:?}");
        assert_eq!(found.changes[0].measure, Measure::Ratio);
        assert!(found.notes[0].contains("loopback"));
    }

    #[test]
    fn what_came_and_went_is_noted() {
        let (old, mut new) = (comparison(&[1.0], 0.0), comparison(&[1.0], 0.0));
        new.cells[0].store = "b".to_owned();
        assert_eq!(changes(&old, &new).notes, ["hot-8 on b is new", "hot-8 on a is gone"]);
    }
}
