//! Which store for what, by the figures.

use super::cell::Cell;
use super::comparison::{Comparison, StoreSeen};
use super::contest::Contest;
use super::spread::Spread;

/// The answer to one question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// What is wanted.
    pub wanted: &'static str,
    /// The store that gives it, by label.
    pub store: String,
    /// Its figure.
    pub figure: f64,
    /// What the figure counts.
    pub unit: &'static str,
    /// Others whose figures can't be told from it: some of their rounds reach it.
    pub as_good: Vec<String>,
}

struct Question {
    wanted: &'static str,
    contest: Contest,
    figure: fn(&Cell) -> Option<Spread>,
    unit: &'static str,
    most: bool,
    /// Whether only stores count whose locks survive the loss of a server.
    replicated: bool,
}

impl Question {
    const fn least(
        wanted: &'static str,
        contest: Contest,
        figure: fn(&Cell) -> Option<Spread>,
        unit: &'static str,
    ) -> Self {
        Self { wanted, contest, figure, unit, most: false, replicated: false }
    }

    const fn most(
        wanted: &'static str,
        contest: Contest,
        figure: fn(&Cell) -> Option<Spread>,
        unit: &'static str,
    ) -> Self {
        Self { wanted, contest, figure, unit, most: true, replicated: false }
    }

    const fn replicated(mut self) -> Self {
        self.replicated = true;
        self
    }
}

const QUESTIONS: [Question; 11] = [
    Question::least("a free lock, soonest", Contest::Uncontended, |cell| cell.p50_us, "µs"),
    Question::least(
        "the same, and locks survive the loss of a server",
        Contest::Uncontended,
        |cell| cell.p50_us,
        "µs",
    )
    .replicated(),
    Question::most("many locks at once", Contest::Spread64, |cell| cell.ops_per_s, "/s"),
    Question::most(
        "the same, and locks survive the loss of a server",
        Contest::Spread64,
        |cell| cell.ops_per_s,
        "/s",
    )
    .replicated(),
    Question::most("one hot lock in one process", Contest::Hot8, |cell| cell.ops_per_s, "/s"),
    Question::least(
        "one hot lock among processes: hand-off, soonest",
        Contest::Processes,
        |cell| cell.handoff_p50_us,
        "µs",
    ),
    Question::most("equal shares among processes (Jain)", Contest::Processes, fairness, ""),
    Question::least(
        "fewest commands for a grant among processes",
        Contest::Processes,
        |cell| cell.commands_per_op,
        "",
    ),
    Question::least(
        "10 000 held locks, least CPU for a renewal",
        Contest::Held10k,
        |cell| cell.cpu_us_per_op,
        "µs",
    ),
    Question::least("free again soonest after a crash", Contest::Crash, |cell| cell.gap_ms, "ms"),
    Question::least("shortest failover", Contest::Failover, |cell| cell.gap_ms, "ms"),
];

fn fairness(cell: &Cell) -> Option<Spread> {
    Spread::of(cell.fairness)
}

/// Which store for what, among those that several processes can share. Empty if the machine was too noisy.
#[must_use]
pub fn summary(comparison: &Comparison) -> Vec<Verdict> {
    if !comparison.conditions.are_quiet() {
        return Vec::new();
    }
    QUESTIONS.iter().filter_map(|question| question.answer(comparison)).collect()
}

impl Question {
    fn answer(&self, comparison: &Comparison) -> Option<Verdict> {
        let counts = |store: &&StoreSeen| store.shared && (!self.replicated || store.survives_failover);
        let stores = comparison.stores.iter().filter(counts);
        let mut ranks: Vec<(&str, Spread)> = stores
            .filter_map(|store| comparison.cell(&store.label, self.contest))
            .filter(|cell| !cell.broke_a_promise())
            .filter_map(|cell| Some((cell.store.as_str(), (self.figure)(cell)?)))
            .collect();
        ranks.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
        if self.most {
            ranks.reverse();
        }
        let ((store, best), others) = ranks.split_first()?;
        // Of one store alone there is nothing to say.
        if others.is_empty() && !self.replicated {
            return None;
        }
        let as_good = others.iter().filter(|(_, figure)| figure.meets(best));
        Some(Verdict {
            wanted: self.wanted,
            store: (*store).to_owned(),
            figure: best.median,
            unit: self.unit,
            as_good: as_good.map(|(store, _)| (*store).to_owned()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::Rounds;
    use super::super::conditions::Conditions;
    use super::super::sample::Sample;
    use super::*;

    fn comparison(others: f64, p50s: &[(&str, [f64; 2])]) -> Comparison {
        let sample = Sample { loopback_us: 20.0, fdatasync_us: 90.0, others, slowdown: 0.0 };
        let stores = p50s.iter().map(|(label, _)| StoreSeen {
            label: (*label).to_owned(),
            backend: "redis".to_owned(),
            version: None,
            shared: *label != "memory",
            exclusion: String::new(),
            fifo: false,
            pushes: false,
            survives_restart: true,
            survives_failover: false,
        });
        let mut comparison =
            Comparison::new(Conditions::of(vec![sample; 5]), stores.collect(), vec![Contest::Uncontended]);
        for (label, p50) in p50s {
            let mut cell = Rounds::default().cell(label, Contest::Uncontended, false);
            cell.p50_us = Spread::of(*p50);
            comparison.cells.push(cell);
        }
        comparison
    }

    #[test]
    fn the_best_shared_store_wins_and_its_equals_are_named() {
        let stores = [
            ("memory", [1.0, 1.0]),
            ("slow", [90.0, 99.0]),
            ("fast", [50.0, 60.0]),
            ("as-fast", [55.0, 70.0]),
        ];
        let found = summary(&comparison(0.0, &stores));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].store.as_str(), found[0].figure), ("fast", 55.0));
        assert_eq!(found[0].as_good, ["as-fast"]);
    }

    #[test]
    fn a_noisy_machine_and_a_broken_promise_win_nothing() {
        let stores = [("fast", [1.0, 1.0]), ("slow", [2.0, 2.0]), ("slower", [3.0, 3.0])];
        assert!(summary(&comparison(0.5, &stores)).is_empty());
        let mut broken = comparison(0.0, &stores);
        broken.cells[0].violations = 1;
        assert_eq!(summary(&broken)[0].store, "slow");
    }
}
