//! `distlock man`.

use clap::CommandFactory;

use crate::arguments::{Arguments, Man};
use crate::exit::{Exit, Failure};
use crate::output::Printer;

pub(super) fn execute(printer: &Printer, man: &Man) -> Result<Exit, Failure> {
    let command = Arguments::command();
    match &man.folder {
        Some(folder) => {
            let written = clap_mangen::generate_to(command.disable_help_subcommand(true), folder);
            written.map_err(|error| {
                Failure::system(&format!("can't write the pages to {}", folder.display()), error)
            })?;
        }
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut page);
            rendered.map_err(|error| Failure::system("can't write the page", error))?;
            printer.raw(&page)?;
        }
    }
    Ok(Exit::Success)
}
