//! `distlock completions`.

use clap::CommandFactory;

use crate::arguments::{Arguments, Completions};
use crate::exit::{Exit, Failure};
use crate::output::Printer;

pub(super) fn execute(printer: &Printer, completions: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "distlock", &mut script);
    printer.raw(&script)?;
    Ok(Exit::Success)
}
