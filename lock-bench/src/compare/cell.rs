//! The figures of one store in one contest.

use serde::{Deserialize, Serialize};

use super::contest::Contest;
use super::peers::PeerRound;
use super::spread::Spread;
use crate::figures::{Figures, jain, per, rounded};
use crate::latency::Latency;

/// The figures of one store in one contest, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cell {
    /// The store's label.
    pub store: String,
    /// What it was compared in.
    pub contest: Contest,
    /// How often it was measured.
    pub rounds: usize,
    /// Pairs of lock and unlock in a second; of held locks, renewals.
    pub ops_per_s: Option<Spread>,
    /// Median time of a pair.
    pub p50_us: Option<Spread>,
    /// The time that 99 % of the pairs did not exceed.
    pub p99_us: Option<Spread>,
    /// Median time of a hand-off.
    pub handoff_p50_us: Option<Spread>,
    /// The time that 99 % of the hand-offs did not exceed.
    pub handoff_p99_us: Option<Spread>,
    /// Of several processes: median time of a hand-off from one to another.
    #[serde(default)]
    pub across_p50_us: Option<Spread>,
    /// Of several processes: median time of a hand-off inside of one.
    #[serde(default)]
    pub inside_p50_us: Option<Spread>,
    /// Of several processes: median time of a hand-off from one to another, as a multiple of one release and one
    /// acquire of the floor, measured right before and after, round by round.
    #[serde(default)]
    pub across_ratio: Option<Spread>,
    /// Median time of the bare commands of a pair.
    pub floor_p50_us: Option<Spread>,
    /// Bare pairs in a second.
    pub floor_ops_per_s: Option<Spread>,
    /// Median time as a multiple of the floor's, round by round.
    pub ratio: Option<Spread>,
    /// Pairs in a second as a multiple of the floor's, round by round.
    pub ops_ratio: Option<Spread>,
    /// Commands that the backend sent for each operation.
    pub commands_per_op: Option<Spread>,
    /// CPU time of all processes of the run for each operation.
    pub cpu_us_per_op: Option<Spread>,
    /// Jain's index over the operations of the contenders in a round: the median of the rounds.
    pub fairness: Option<f64>,
    /// The least of the rounds.
    #[serde(default)]
    pub fairness_least: Option<f64>,
    /// Memory of a held lock.
    pub bytes_per_lock: Option<u64>,
    /// The time without a holder after a crash or a failover.
    pub gap_ms: Option<Spread>,
    /// Times of pairs: what part of them took no longer than how many microseconds.
    pub latency: Vec<[f64; 2]>,
    /// Times of hand-offs, likewise; of several processes, of those from one to another.
    pub hand_off: Vec<[f64; 2]>,
    /// How many operations each contender had, as multiples of an equal share.
    pub shares: Vec<f64>,
    /// Holds that were lost before they were given back.
    pub lost: u64,
    /// Overlapping holds and tokens that did not rise.
    pub violations: u64,
    /// Whether the store's guarantees say that this may happen here.
    pub may_violate: bool,
    /// What other libraries did on the same store.
    pub peers: Vec<PeerFigures>,
}

/// What another library did in the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PeerFigures {
    /// Its name.
    pub name: String,
    /// Its pairs in a second.
    pub ops_per_s: Spread,
    /// Median time of its pairs.
    pub p50_us: Spread,
    /// The time that 99 % of its pairs did not exceed.
    pub p99_us: Spread,
    /// The store's pairs in a second as a multiple of its.
    pub ratio: f64,
}

/// What becomes a cell.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) figures: Vec<Figures>,
    pub(super) gaps_ms: Vec<f64>,
    pub(super) violations: u64,
    pub(super) lost: u64,
    pub(super) peers: Vec<(String, Vec<PeerRound>)>,
}

impl Rounds {
    pub(super) const fn is_empty(&self) -> bool {
        self.figures.is_empty() && self.gaps_ms.is_empty()
    }

    pub(super) fn note_peer(&mut self, name: &str, round: PeerRound) {
        match self.peers.iter_mut().find(|(known, _)| known == name) {
            Some((_, rounds)) => rounds.push(round),
            None => self.peers.push((name.to_owned(), vec![round])),
        }
    }

    /// Adds a round, or of one that does not count only the promises that were broken in it.
    pub(super) fn add(&mut self, round: Self, counts: bool) {
        self.violations += round.violations;
        self.lost += round.lost;
        if !counts {
            self.violations += round.figures.iter().map(|figures| figures.violations).sum::<u64>();
            self.lost += round.figures.iter().map(|figures| figures.lost).sum::<u64>();
            return;
        }
        self.figures.extend(round.figures);
        self.gaps_ms.extend(round.gaps_ms);
        for (name, rounds) in round.peers {
            for peer in rounds {
                self.note_peer(&name, peer);
            }
        }
    }

    pub(super) fn cell(self, store: &str, contest: Contest, may_violate: bool) -> Cell {
        let all = &self.figures;
        let each = |figure: fn(&Figures) -> Option<f64>| Spread::of(all.iter().filter_map(figure));
        let (latency, hand_off) = (merged(all, |f| &f.traces.latency), merged(all, |f| &f.traces.hand_off));
        let shares = summed(all);
        let fairness = fairness(all).filter(|_| contest.is_contended());
        let ops_per_s = each(|figures| Some(figures.ops_per_s));
        Cell {
            store: store.to_owned(),
            contest,
            rounds: all.len().max(self.gaps_ms.len()),
            ops_per_s,
            p50_us: each(|figures| Some(figures.p50_us)),
            p99_us: each(|figures| Some(figures.p99_us)),
            handoff_p50_us: each(|figures| figures.handoff_p50_us),
            handoff_p99_us: each(|figures| figures.handoff_p99_us),
            across_p50_us: each(|figures| figures.across_p50_us),
            inside_p50_us: each(|figures| figures.inside_p50_us),
            across_ratio: each(|figures| Some(per(figures.across_p50_us?, figures.floor_p50_us?))),
            floor_p50_us: each(|figures| figures.floor_p50_us),
            floor_ops_per_s: each(|figures| figures.floor_ops_per_s),
            ratio: each(|figures| figures.ratio),
            // What several processes do has no floor of the same kind.
            ops_ratio: each(|figures| {
                figures.ratio.and(figures.floor_ops_per_s).map(|floor| per(figures.ops_per_s, floor))
            }),
            commands_per_op: each(|figures| figures.commands_per_op),
            cpu_us_per_op: each(|figures| Some(figures.cpu_us_per_op)),
            fairness: fairness.map(|fairness| fairness.median),
            fairness_least: fairness.map(|fairness| fairness.least),
            bytes_per_lock: all.iter().find_map(|figures| figures.rss_bytes_per_lock),
            gap_ms: Spread::of(self.gaps_ms),
            latency: points(&latency),
            hand_off: points(&hand_off),
            shares: relative(&shares),
            lost: self.lost + all.iter().map(|figures| figures.lost).sum::<u64>(),
            violations: self.violations + all.iter().map(|figures| figures.violations).sum::<u64>(),
            may_violate,
            peers: self.peers.iter().filter_map(|(name, rounds)| peer(name, rounds, ops_per_s?)).collect(),
        }
    }
}

impl Cell {
    /// Whether something happened that the store promises never happens.
    #[must_use]
    pub const fn broke_a_promise(&self) -> bool {
        self.violations > 0 && !self.may_violate
    }
}

fn peer(name: &str, rounds: &[PeerRound], ours: Spread) -> Option<PeerFigures> {
    let each = |figure: fn(&PeerRound) -> f64| Spread::of(rounds.iter().map(figure));
    let ops_per_s = each(|round| per(round.operations as f64, round.elapsed_us / 1e6))?;
    Some(PeerFigures {
        name: name.to_owned(),
        p50_us: each(|round| round.p50_us)?,
        p99_us: each(|round| round.p99_us)?,
        ratio: rounded(per(ours.median, ops_per_s.median)),
        ops_per_s,
    })
}

fn merged(all: &[Figures], trace: fn(&Figures) -> &Latency) -> Latency {
    let mut sum = Latency::new();
    for figures in all {
        sum.add(trace(figures));
    }
    sum
}

fn points(latency: &Latency) -> Vec<[f64; 2]> {
    const PARTS: [f64; 11] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];
    if latency.is_empty() {
        return Vec::new();
    }
    PARTS.map(|part| [part, rounded(latency.micros(part))]).to_vec()
}

fn summed(all: &[Figures]) -> Vec<u64> {
    let contenders = all.iter().map(|figures| figures.traces.shares.len()).max().unwrap_or(0);
    (0..contenders).map(|n| all.iter().filter_map(|figures| figures.traces.shares.get(n)).sum()).collect()
}

/// Jain's index, round by round: over all of them together, whoever was short of its share in one round could have
/// made up for it in another.
fn fairness(all: &[Figures]) -> Option<Spread> {
    let shares = all.iter().map(|figures| &figures.traces.shares).filter(|shares| !shares.is_empty());
    Spread::of(shares.map(|shares| jain(shares)))
}

fn relative(shares: &[u64]) -> Vec<f64> {
    let equal = per(shares.iter().sum::<u64>() as f64, shares.len() as f64);
    // Of a crowd that each had a lock of its own, nobody wants to see each.
    if shares.len() > 300 {
        Vec::new()
    } else {
        shares.iter().map(|share| rounded(per(*share as f64, equal))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::BenchOptions;
    use crate::pairs::Tally;
    use crate::scenario::Scenario;

    #[test]
    fn a_gap_alone_makes_a_cell() {
        let mut rounds = Rounds { gaps_ms: vec![1900.0, 1500.0, 1700.0], violations: 1, ..Rounds::default() };
        assert!(!rounds.is_empty());
        rounds.note_peer("other", PeerRound::default());
        let cell = rounds.cell("redis", Contest::Crash, false);
        assert_eq!(cell.gap_ms.unwrap().median, 1700.0);
        assert!(cell.broke_a_promise() && cell.peers.is_empty() && cell.latency.is_empty());
    }

    #[test]
    fn a_round_that_does_not_count_leaves_its_broken_promises() {
        let round = |gap| Rounds { gaps_ms: vec![gap], violations: 1, ..Rounds::default() };
        let mut rounds = Rounds::default();
        rounds.add(round(9000.0), false);
        assert!(rounds.is_empty());
        rounds.add(round(1500.0), true);
        let cell = rounds.cell("redis", Contest::Crash, false);
        assert_eq!((cell.rounds, cell.gap_ms.unwrap().most, cell.violations), (1, 1500.0, 2));
    }

    #[test]
    fn shares_are_multiples_of_an_equal_one() {
        assert_eq!(relative(&[1, 3]), [0.5, 1.5]);
        assert_eq!(relative(&[]), Vec::<f64>::new());
    }

    #[test]
    fn fairness_is_that_of_single_rounds() {
        let round = |shares: [u64; 2]| {
            let params = BenchOptions::new(Scenario::Hot).contenders(2).params().unwrap();
            let mut tally = Tally::new(2);
            tally.pairs = shares.to_vec();
            let backend = distlock::MemoryBackend::new();
            let info = distlock::LockBackend::info(&backend);
            Figures::of(info, Scenario::Hot, params, &tally, Duration::from_secs(1))
        };
        let figures = vec![round([9, 0]), round([0, 9]), round([5, 5])];
        let cell = Rounds { figures, ..Rounds::default() }.cell("a", Contest::Hot2, false);
        assert_eq!((cell.fairness, cell.fairness_least), (Some(0.5), Some(0.5)), "not 1, as of all rounds");
        let figures = vec![round([9, 0]), round([5, 5]), round([5, 5])];
        let cell = Rounds { figures, ..Rounds::default() }.cell("a", Contest::Hot2, false);
        assert_eq!((cell.fairness, cell.fairness_least), (Some(1.0), Some(0.5)));
    }

    #[test]
    fn a_peer_is_compared_by_its_throughput() {
        let round = PeerRound { operations: 500, elapsed_us: 1e6, p50_us: 9.0, ..PeerRound::default() };
        let peer = peer("other", &[round], Spread::of([1000.0]).unwrap()).unwrap();
        assert_eq!((peer.ratio, peer.ops_per_s.median), (2.0, 500.0));
    }
}
