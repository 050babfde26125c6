//! The arguments of `distlock bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use distlock_bench::Scenario;
use distlock_bench::compare::{Contest, StoreToCompare};

use crate::durations;

/// Measure a store, or compare several; safety is checked meanwhile
///
/// One store in one scenario gives its figures. With `--store`, all stores are measured in turn and put into a
/// report, `report.html`, and its figures, `report.json`. With `--compare`, the figures of two reports are held
/// against each other.
#[derive(Debug, Args)]
#[command(after_help = "\
It works on keys of its own below `bench/`. Exit status: 0 measured or compared; 1 two held a lock at once
although the store promises that this never happens, something could not be measured, or the machine was
too noisy to compare by what was measured.

Examples:
  distlock --url memory: bench --scenario hot
  distlock --format json bench --scenario uncontended --secs 10 --floor
  distlock bench --quick --store redis=redis://localhost --store etcd=etcd://localhost
  distlock bench --compare old/report.json target/bench/report.json")]
pub(crate) struct Bench {
    /// What to measure: uncontended, spread, hot, herd, held or processes
    #[arg(long, default_value = "uncontended")]
    pub(crate) scenario: Scenario,
    /// How many contenders, instead of the scenario's own number
    #[arg(long, value_name = "N")]
    pub(crate) contenders: Option<usize>,
    /// For how long, in seconds, instead of the scenario's own time
    #[arg(long, value_name = "N")]
    pub(crate) secs: Option<u64>,
    /// Also run the bare statements of the same operation, interleaved, and show the ratio
    #[arg(long)]
    pub(crate) floor: bool,
    /// Of hot, also let as many contenders take the store's own lock, interleaved, and show the ratio
    #[arg(long)]
    pub(crate) peer: bool,
    #[command(flatten)]
    pub(crate) comparison: Comparison,
    /// Show what changed from one report's figures to another's by more than noise
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], value_hint = ValueHint::FilePath, conflicts_with_all = ["scenario", "contenders", "secs", "floor", "peer", "stores"])]
    pub(crate) compare: Option<Vec<PathBuf>>,
}

/// Several stores in one run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparing stores")]
pub(crate) struct Comparison {
    /// A store that takes part, with its name in the report; give it once for each
    #[arg(long = "store", value_name = "LABEL=URL", value_parser = StoreToCompare::parse, conflicts_with_all = ["scenario", "contenders", "secs", "floor", "peer"])]
    pub(crate) stores: Vec<StoreToCompare>,
    /// Compare in five contests instead of all
    #[arg(long, requires = "stores", conflicts_with = "contests")]
    pub(crate) quick: bool,
    /// A contest to compare in, such as hot-8 or crash, instead of all; may be repeated
    #[arg(long = "contest", value_name = "NAME", requires = "stores")]
    pub(crate) contests: Vec<Contest>,
    /// How often to measure each figure
    #[arg(long, value_name = "N", default_value_t = 3, requires = "stores")]
    pub(crate) rounds: usize,
    /// How long each store works in a round
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = durations::parse, requires = "stores")]
    pub(crate) round: Duration,
    /// How durably the servers write, such as disk, for the report
    #[arg(long, value_name = "TEXT", requires = "stores")]
    pub(crate) durability: Option<String>,
    /// How long to wait for a quiet machine, and to measure noisy rounds again, in all [default: 3m, or 1m with --quick]
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, requires = "stores")]
    pub(crate) patience: Option<Duration>,
    /// A store whose failover is measured; may be repeated
    #[arg(long = "failover", value_name = "LABEL", requires_all = ["stores", "breaker"])]
    pub(crate) failovers: Vec<String>,
    /// A program that kills the leading server of a store (`break LABEL`) and makes it whole (`mend LABEL`)
    #[arg(long, value_name = "PROGRAM", requires = "stores", value_hint = ValueHint::ExecutablePath)]
    pub(crate) breaker: Option<PathBuf>,
    /// A program that contends through other libraries: the project's `peers`
    #[arg(long, value_name = "PROGRAM", requires = "stores", value_hint = ValueHint::ExecutablePath)]
    pub(crate) peers: Option<PathBuf>,
    /// The folder for the report
    #[arg(long, value_name = "FOLDER", default_value = "target/bench", requires = "stores", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
}
