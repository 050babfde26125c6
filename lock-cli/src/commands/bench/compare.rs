//! `distlock bench --store ..`: several stores in one run, and the report.

use std::path::Path;
use std::time::Duration;

use distlock_bench::compare::{CompareOptions, Comparison, Contest, compare};
use distlock_bench::page::page;

use super::progress::Shown;
use crate::arguments::Comparison as Asked;
use crate::exit::{Exit, Failure};
use crate::output::{Compared, Printer};

const PAGE: &str = "report.html";
const FIGURES: &str = "report.json";
/// For a quiet machine, where the whole run takes some minutes.
const QUICK_PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn execute(printer: &Printer, asked: Asked) -> Result<Exit, Failure> {
    let mut options = CompareOptions::new(asked.stores);
    if asked.quick {
        options.contests = Contest::QUICK.to_vec();
        options.patience = QUICK_PATIENCE;
    } else if !asked.contests.is_empty() {
        options.contests = asked.contests;
    }
    options.patience = asked.patience.unwrap_or(options.patience);
    options.rounds = asked.rounds;
    options.length = asked.round;
    options.durability = asked.durability;
    options.failovers = asked.failovers;
    options.breaker = asked.breaker;
    options.peers = asked.peers;
    options.check()?;
    // Before minutes are spent on what can't be kept.
    create(&asked.out)?;
    let shown = Shown::default();
    let found = compare(&distlock::registry(), &options, &|progress| shown.show(progress)).await?;
    keep(&asked.out, &found)?;
    let is_good = found.is_sound() && found.conditions.are_quiet();
    printer.print(&Compared::new(found, asked.out.join(PAGE)))?;
    Ok(if is_good { Exit::Success } else { Exit::Negative })
}

fn create(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::system(&format!("can't create {} for the report", folder.display()), error))
}

fn keep(folder: &Path, found: &Comparison) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(found);
    let json = json.map_err(|error| Failure::system("can't write the figures as JSON", error))?;
    for (name, text) in [(FIGURES, json), (PAGE, page(found, FIGURES))] {
        let path = folder.join(name);
        std::fs::write(&path, text)
            .map_err(|error| Failure::system(&format!("can't write {}", path.display()), error))?;
    }
    Ok(())
}
