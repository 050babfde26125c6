//! `distlock check`.

use std::path::{Path, PathBuf};

use distlock_conformance::history::{self, Event, Promises};

use crate::arguments::Check;
use crate::exit::{Exit, Failure};
use crate::output::{Checked, Printer};

pub(super) fn execute(printer: &Printer, check: &Check) -> Result<Exit, Failure> {
    let mut events = Vec::new();
    for given in &check.histories {
        for file in files(given)? {
            events.extend(read(&file)?);
        }
    }
    let mut promises = Promises::common();
    promises.exclusion = !check.overlaps;
    promises.fifo = check.fifo;
    promises.single_step = check.single_step;
    promises.sudden_ends = check.sudden_ends;
    promises.lateness = check.lateness;
    let violations = history::check(&events, promises);
    let exit = if violations.is_empty() { Exit::Success } else { Exit::Negative };
    printer.print(&Checked::new(&events, promises, violations))?;
    Ok(exit)
}

/// The file itself, or the histories in a folder, in the order of their names.
fn files(given: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable =
        |error| Failure::usage(format!("can't read {}: {error}; name a history", given.display()));
    if !std::fs::metadata(given).map_err(unreadable)?.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(given).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Failure::usage(format!("there is no file that ends in .jsonl in {}", given.display())));
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<Vec<Event>, Failure> {
    history::read(file).map_err(|error| Failure::new(Exit::BadData, error.to_string()))
}
