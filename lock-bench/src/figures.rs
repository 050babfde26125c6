//! What a run found.

use std::time::Duration;

use distlock::{BackendInfo, Fairness};
use serde::Serialize;

use crate::floor::BareTally;
use crate::latency::Latency;
use crate::options::Params;
use crate::pairs::Tally;
use crate::rounds::{Measured, Spent};
use crate::scenario::Scenario;

/// What a run found: one flat JSON object. What does not apply to a scenario is left out of it; what
/// the store or the machine can't tell is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// The store's name.
    pub store: &'static str,
    /// What was measured.
    pub scenario: Scenario,
    /// With which numbers.
    pub params: Params,
    /// Operations: pairs of lock and unlock; of `held`, renewals.
    pub operations: u64,
    /// Operations in a second, of all contenders together.
    pub ops_per_s: f64,
    /// Median time of an operation: of a pair, all but the hold; of `held`, one renewal asked for
    /// while the others go on.
    pub p50_us: f64,
    /// The time that 99 % of the operations did not exceed.
    pub p99_us: f64,
    /// The time that 99.9 % of the operations did not exceed.
    pub p999_us: f64,
    /// Median time from one contender's call of unlock to the grant of another that waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff_p50_us: Option<f64>,
    /// The time that 99 % of the hand-offs did not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff_p99_us: Option<f64>,
    /// Of `processes`: the median of the hand-offs from one process to another alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across_p50_us: Option<f64>,
    /// Of `processes`: the median of the hand-offs inside of one process alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside_p50_us: Option<f64>,
    /// Commands or statements that the store's backend sent for each operation.
    pub commands_per_op: Option<f64>,
    /// Jain's index over the contenders' operations: 1 when all had as many, 1/n when one had all.
    pub fairness: f64,
    /// The smallest contender's part of all operations.
    pub least_share: f64,
    /// Contenders of this process that were served before one who had come earlier; only of stores
    /// that promise first come, first served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fifo_inversions: Option<u64>,
    /// CPU time that all processes of the run used for each operation. This measurement's own is in it,
    /// but for a single contender without pauses.
    pub cpu_us_per_op: f64,
    /// Resident memory at the end; of `processes`, of the largest contender.
    pub rss_kib: Option<u64>,
    /// Growth of resident memory for each held lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes_per_lock: Option<u64>,
    /// Growth of the heap for each held lock, where the program counts its heap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_bytes_per_lock: Option<u64>,
    /// Tasks that the client runs for all held locks together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_tasks: Option<u64>,
    /// The least time that any held lock had left when it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_remaining_ms: Option<f64>,
    /// Holds that were lost before they were given back.
    pub lost: u64,
    /// Overlapping holds, and grants whose token was not higher than the one before. Must be 0.
    pub violations: u64,
    /// Median time of the bare statements of the same operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_p50_us: Option<f64>,
    /// Bare operations in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_ops_per_s: Option<f64>,
    /// CPU time of a bare operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_cpu_us_per_op: Option<f64>,
    /// `p50_us` as a multiple of `floor_p50_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Median time of a pair of the store's own lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_p50_us: Option<f64>,
    /// Its pairs in a second, of all contenders together. Under contention each is a hand-off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_ops_per_s: Option<f64>,
    /// `ops_per_s` as a multiple of `peer_ops_per_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_ratio: Option<f64>,
    /// What the figures were made of.
    #[serde(skip)]
    pub(crate) traces: Traces,
}

/// Distributions, for whoever puts several runs together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Traces {
    pub(crate) latency: Latency,
    /// Of `processes`, those from one process to another alone.
    pub(crate) hand_off: Latency,
    /// Operations by contender.
    pub(crate) shares: Vec<u64>,
}

impl Figures {
    /// The figures that every scenario has.
    pub(crate) fn of(
        info: &BackendInfo,
        scenario: Scenario,
        params: Params,
        tally: &Tally,
        elapsed: Duration,
    ) -> Self {
        let operations = tally.operations();
        let hand_off = |share| (!tally.hand_off.is_empty()).then(|| rounded(tally.hand_off.micros(share)));
        Self {
            store: info.name,
            scenario,
            params,
            operations,
            ops_per_s: rounded(per(operations as f64, elapsed.as_secs_f64())),
            p50_us: rounded(tally.latency.micros(0.5)),
            p99_us: rounded(tally.latency.micros(0.99)),
            p999_us: rounded(tally.latency.micros(0.999)),
            handoff_p50_us: hand_off(0.5),
            handoff_p99_us: hand_off(0.99),
            across_p50_us: None,
            inside_p50_us: None,
            commands_per_op: None,
            fairness: rounded(jain(&tally.pairs)),
            least_share: least_share(&tally.pairs),
            fifo_inversions: None,
            cpu_us_per_op: 0.0,
            rss_kib: None,
            rss_bytes_per_lock: None,
            heap_bytes_per_lock: None,
            scheduler_tasks: None,
            least_remaining_ms: None,
            lost: tally.lost,
            violations: 0,
            floor_p50_us: None,
            floor_ops_per_s: None,
            floor_cpu_us_per_op: None,
            ratio: None,
            peer_p50_us: None,
            peer_ops_per_s: None,
            peer_ratio: None,
            traces: Traces {
                latency: tally.latency.clone(),
                hand_off: tally.hand_off.clone(),
                shares: tally.pairs.clone(),
            },
        }
    }

    /// The figures of contenders in this process.
    pub(crate) fn of_pairs(
        info: &BackendInfo,
        scenario: Scenario,
        params: Params,
        measured: &Measured,
    ) -> Self {
        let mut figures = Self::of(info, scenario, params, &measured.tally, measured.spent.elapsed);
        figures.commands(measured.spent.commands);
        figures.cpu_us_per_op = cpu_us(measured.cpu.cpu, measured.cpu.operations);
        if let Some((bare, spent)) = &measured.floor {
            figures.beside(bare, spent);
        }
        if let Some((peer, spent)) = &measured.peer {
            let ops_per_s = per(peer.operations as f64, spent.elapsed.as_secs_f64());
            figures.peer_p50_us = Some(rounded(peer.latency.micros(0.5)));
            figures.peer_ops_per_s = Some(rounded(ops_per_s));
            figures.peer_ratio = Some(rounded(per(figures.ops_per_s, ops_per_s)));
        }
        figures
    }

    /// Adds the hand-offs of several processes, of which those inside of one tell nothing of the store.
    pub(crate) fn hand_offs_of_processes(&mut self, across: Latency, inside: &Latency) {
        let median = |kind: &Latency| (!kind.is_empty()).then(|| rounded(kind.micros(0.5)));
        (self.across_p50_us, self.inside_p50_us) = (median(&across), median(inside));
        self.traces.hand_off = across;
    }

    /// Adds the floor that was measured right beside.
    pub(crate) fn floor_beside(&mut self, bare: &BareTally, elapsed: Duration) {
        self.floor_p50_us = Some(rounded(bare.latency.micros(0.5)));
        self.floor_ops_per_s = Some(rounded(per(bare.operations as f64, elapsed.as_secs_f64())));
    }

    /// Adds what the operations cost.
    pub(crate) fn costs(&mut self, commands: Option<u64>, cpu: Duration) {
        self.commands(commands);
        self.cpu_us_per_op = cpu_us(cpu, self.operations);
    }

    fn commands(&mut self, sent: Option<u64>) {
        self.commands_per_op = sent.map(|sent| rounded(per(sent as f64, self.operations as f64)));
    }

    /// Adds the order in which contenders were served, if the store promises one.
    pub(crate) fn order(&mut self, info: &BackendInfo, inversions: u64) {
        self.fifo_inversions = (info.guarantees.fairness == Fairness::Fifo).then_some(inversions);
    }

    fn beside(&mut self, bare: &BareTally, spent: &Spent) {
        let p50 = bare.latency.micros(0.5);
        self.floor_beside(bare, spent.elapsed);
        self.floor_cpu_us_per_op = Some(cpu_us(spent.cpu, bare.operations));
        self.ratio = Some(rounded(per(self.p50_us, p50)));
    }
}

fn cpu_us(cpu: Duration, operations: u64) -> f64 {
    rounded(per(cpu.as_secs_f64() * 1e6, operations as f64))
}

/// Jain's fairness index.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    per(sum * sum, shares.len() as f64 * squares)
}

fn least_share(shares: &[u64]) -> f64 {
    let sum: u64 = shares.iter().sum();
    // Of many contenders a small number, so it gets more digits.
    (per(shares.iter().min().copied().unwrap_or(0) as f64, sum as f64) * 1e6).round() / 1e6
}

pub(crate) fn per(amount: f64, of: f64) -> f64 {
    if of > 0.0 { amount / of } else { 0.0 }
}

/// To three decimals, so that the JSON can be read by people too.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::BenchOptions;

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_a_monopoly() {
        assert!((jain(&[5, 5, 5, 5]) - 1.0).abs() < 1e-9);
        assert!((jain(&[9, 0, 0, 0]) - 0.25).abs() < 1e-9);
        assert!((least_share(&[1, 3, 4]) - 0.125).abs() < 1e-9);
        assert_eq!((jain(&[0, 0]), least_share(&[])), (0.0, 0.0), "nothing done is no reason to fail");
    }

    #[test]
    fn one_flat_object_with_unknowns_as_null() {
        let backend = distlock::MemoryBackend::new();
        let params = BenchOptions::new(Scenario::Spread).contenders(2).params().unwrap();
        let mut tally = Tally::new(2);
        tally.pairs = vec![3, 1];
        let info = distlock::LockBackend::info(&backend);
        let figures = Figures::of(info, Scenario::Spread, params, &tally, Duration::from_secs(2));
        let json = serde_json::to_value(figures).unwrap();
        assert_eq!((&json["store"], &json["scenario"]), (&"memory".into(), &"spread".into()));
        assert_eq!((&json["ops_per_s"], &json["operations"]), (&2.0.into(), &4.into()));
        assert!(json["commands_per_op"].is_null() && json.get("commands_per_op").is_some());
        assert!(json.get("floor_p50_us").is_none() && json["violations"] == 0);
    }
}
