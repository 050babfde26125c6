//! The figures of a benchmark.

use distlock_bench::Figures;
use serde::Serialize;

use super::Report;
use super::table::pairs;
use crate::durations::exactly;

/// What a benchmark found; its JSON is the library's.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Measured(pub(crate) Figures);

impl Report for Measured {
    fn text(&self) -> String {
        let found = &self.0;
        let micros = |time: f64| format!("{time:.1} µs");
        let mut lines = vec![
            ("store", found.store.to_owned()),
            ("scenario", found.scenario.to_string()),
            ("contenders", found.params.contenders.to_string()),
            ("measured for", exactly(found.params.duration)),
            ("operations", format!("{} ({:.0} a second)", found.operations, found.ops_per_s)),
            ("p50", micros(found.p50_us)),
            ("p99", micros(found.p99_us)),
            ("p99.9", micros(found.p999_us)),
            ("fairness", format!("{:.3} (least share {:.3})", found.fairness, found.least_share)),
            ("lost", found.lost.to_string()),
            ("violations", found.violations.to_string()),
        ];
        let mut add = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
        add("hand-off p50", found.handoff_p50_us.map(micros));
        add("hand-off p99", found.handoff_p99_us.map(micros));
        add("between processes p50", found.across_p50_us.map(micros));
        add("inside a process p50", found.inside_p50_us.map(micros));
        add("commands per operation", found.commands_per_op.map(|commands| format!("{commands:.2}")));
        add("overtakings", found.fifo_inversions.map(|inversions| inversions.to_string()));
        add("resident memory", found.rss_kib.map(|memory| format!("{memory} KiB")));
        add("bare statements p50", found.floor_p50_us.map(micros));
        add("ratio to them", found.ratio.map(|ratio| format!("{ratio:.2}")));
        add("the store's own lock", found.peer_ops_per_s.map(|times| format!("{times:.0} times a second")));
        add("ratio to it", found.peer_ratio.map(|ratio| format!("{ratio:.2}")));
        pairs(lines)
    }
}
