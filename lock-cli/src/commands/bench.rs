//! `distlock bench`.

use std::time::Duration;

use distlock_bench::{BenchOptions, run};

use crate::arguments::{Bench, Global};
use crate::exit::{Exit, Failure};
use crate::output::{Measured, Printer};
use crate::store;

pub(super) async fn execute(global: &Global, printer: &Printer, bench: Bench) -> Result<Exit, Failure> {
    let mut options = BenchOptions::new(bench.scenario).floor(bench.floor);
    options.contenders = bench.contenders;
    options.duration = bench.secs.map(Duration::from_secs);
    // Checked before a store is touched.
    options.params()?;
    let figures = run(&distlock::registry(), &store::url(global)?, &options).await?;
    let unsafe_grants = figures.violations;
    printer.print(&Measured(figures))?;
    Ok(if unsafe_grants == 0 { Exit::Success } else { Exit::Negative })
}
