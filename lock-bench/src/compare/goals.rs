//! What a backend must not cost, and whether it does.

use super::cell::Cell;
use super::comparison::{Comparison, StoreSeen};
use super::contest::Contest;
use super::spread::Spread;

/// How a store did by one goal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Judged {
    /// The goal, in a few words.
    pub goal: &'static str,
    /// The store's label.
    pub store: String,
    /// Its figure.
    pub figure: f64,
    /// What the figure must not pass.
    pub limit: f64,
    /// Whether the limit is the most that the figure may be, or the least.
    pub is_most: bool,
}

impl Judged {
    /// Whether the store met the goal.
    #[must_use]
    pub fn is_met(&self) -> bool {
        if self.is_most { self.figure <= self.limit } else { self.figure >= self.limit }
    }
}

/// The goals, in the order of [`goals`].
pub const GOALS: [&str; 7] = [
    "free lock: p50, × floor",
    "64 locks: pairs, × floor",
    "8 in a process: pairs, × floor",
    "256 in a process: pairs, × floor",
    "4 × 4: hand-off across processes, p50, × floor's pair",
    "4 × 4: fairness (Jain)",
    "10 000 held: % of a core",
];

/// Of 10 000 locks with a ttl of 30 s, each of which is renewed every 10 s.
const RENEWALS_PER_S: f64 = 1000.0;

/// How the stores did by each goal that applies to them. Empty if the machine was too noisy to tell.
#[must_use]
pub fn goals(comparison: &Comparison) -> Vec<Judged> {
    if !comparison.conditions.are_quiet() {
        return Vec::new();
    }
    comparison.stores.iter().filter(|store| store.shared).flat_map(|store| of(store, comparison)).collect()
}

fn of(store: &StoreSeen, comparison: &Comparison) -> Vec<Judged> {
    let cell = |contest| comparison.cell(&store.label, contest);
    let median = |contest, figure: fn(&Cell) -> Option<Spread>| Some(figure(cell(contest)?)?.median);
    let overhead = median(Contest::Uncontended, |cell| cell.ratio);
    let throughput = |contest| median(contest, |cell| cell.ops_ratio);
    let hand_off = median(Contest::Processes, |cell| cell.across_ratio);
    let fairness = cell(Contest::Processes).and_then(|cell| cell.fairness);
    let core = median(Contest::Held10k, |cell| cell.cpu_us_per_op)
        .map(|micros| micros * RENEWALS_PER_S / 1e6 * 100.0);
    let found = [
        (overhead, Some(overhead_most(store)), true),
        (throughput(Contest::Spread64), Some(0.9), false),
        (throughput(Contest::Hot8), Some(1.0), false),
        (throughput(Contest::Herd256), Some(1.0), false),
        (hand_off, store.pushes.then_some(2.0), true),
        (fairness, store.fifo.then_some(0.95), false),
        (core, has_goal_for_held(&store.backend).then_some(2.0), true),
    ];
    let judged = GOALS.into_iter().zip(found).filter_map(|(goal, (figure, limit, is_most))| {
        Some(Judged { goal, store: store.label.clone(), figure: figure?, limit: limit?, is_most })
    });
    judged.collect()
}

/// Whether the store's locks are renewed together, so that many held ones must cost little.
pub(super) fn has_goal_for_held(backend: &str) -> bool {
    ["redis", "postgres"].contains(&backend)
}

/// Where the bare commands take little time, or several of them are needed, ours weighs more.
fn overhead_most(store: &StoreSeen) -> f64 {
    if ["sqlite", "zk"].contains(&store.backend.as_str()) { 1.15 } else { 1.1 }
}

#[cfg(test)]
mod tests {
    use super::super::cell::Rounds;
    use super::super::conditions::Conditions;
    use super::super::sample::Sample;
    use super::*;

    fn comparison(others: f64, store: StoreSeen) -> Comparison {
        let sample = Sample { loopback_us: 20.0, fdatasync_us: 90.0, others, slowdown: 0.0 };
        let contests = vec![Contest::Uncontended, Contest::Processes];
        let cell = |contest| Rounds::default().cell(&store.label, contest, false);
        let free = Cell {
            ratio: Spread::of([1.12]),
            floor_p50_us: Spread::of([100.0]),
            ..cell(Contest::Uncontended)
        };
        let processes =
            Cell { across_ratio: Spread::of([1.5]), fairness: Some(0.9), ..cell(Contest::Processes) };
        let mut comparison = Comparison::new(Conditions::of(vec![sample; 5]), vec![store], contests);
        comparison.cells = vec![free, processes];
        comparison
    }

    fn store(backend: &str, pushes: bool, fifo: bool) -> StoreSeen {
        StoreSeen {
            label: "it".to_owned(),
            backend: backend.to_owned(),
            version: None,
            shared: true,
            exclusion: String::new(),
            fifo,
            pushes,
            survives_restart: true,
            survives_failover: false,
        }
    }

    fn met(others: f64, store: StoreSeen) -> Vec<(f64, bool)> {
        goals(&comparison(others, store)).iter().map(|judged| (judged.figure, judged.is_met())).collect()
    }

    #[test]
    fn each_store_is_judged_by_what_applies_to_it() {
        assert_eq!(met(0.0, store("redis", false, false)), [(1.12, false)]);
        assert_eq!(met(0.0, store("sqlite", false, false)), [(1.12, true)]);
        assert_eq!(met(0.0, store("etcd", true, true)), [(1.12, false), (1.5, true), (0.9, false)]);
    }

    #[test]
    fn nothing_is_judged_on_a_noisy_machine_nor_of_a_store_of_one_process() {
        assert!(met(0.5, store("redis", true, true)).is_empty());
        assert!(met(0.0, StoreSeen { shared: false, ..store("memory", true, true) }).is_empty());
    }
}
