//! `distlock bench`.

mod compare;
mod progress;

use std::path::Path;
use std::time::Duration;

use distlock::ErrorKind;
use distlock_bench::compare::{Comparison, changes};
use distlock_bench::{BenchOptions, run};

use crate::arguments::{Bench, Global};
use crate::exit::{Exit, Failure};
use crate::output::{Changed, Measured, Printer};
use crate::store;

pub(super) async fn execute(global: &Global, printer: &Printer, bench: Bench) -> Result<Exit, Failure> {
    if let Some(files) = &bench.compare {
        let [old, new] = files.as_slice() else { return Err(Failure::usage("give two files to compare")) };
        let found = changes(&read(old)?, &read(new)?);
        let is_refused = !found.refused.is_empty();
        printer.print(&Changed(found))?;
        return Ok(if is_refused { Exit::Negative } else { Exit::Success });
    }
    if !bench.comparison.stores.is_empty() {
        return compare::execute(printer, bench.comparison).await;
    }
    let mut options = BenchOptions::new(bench.scenario).floor(bench.floor).peer(bench.peer);
    options.contenders = bench.contenders;
    options.duration = bench.secs.map(Duration::from_secs);
    // Checked before a store is touched.
    options.params()?;
    let figures = run(&distlock::registry(), &store::url(global)?, &options).await?;
    let unsafe_grants = figures.violations;
    printer.print(&Measured(figures))?;
    Ok(if unsafe_grants == 0 { Exit::Success } else { Exit::Negative })
}

fn read(file: &Path) -> Result<Comparison, Failure> {
    Comparison::read(file).map_err(|error| match error.kind() {
        ErrorKind::Corrupt => Failure::new(Exit::BadData, error.to_string()),
        _ => Failure::new(Exit::BadUsage, error.to_string()),
    })
}
