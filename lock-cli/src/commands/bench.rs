//! `distlock bench`.

use crate::arguments::{Bench, Global};
use crate::exit::{Exit, Failure};
use crate::output::Printer;

pub(super) fn execute(_global: &Global, _printer: &Printer, _bench: Bench) -> Result<Exit, Failure> {
    Err(Failure::usage("not there yet"))
}
