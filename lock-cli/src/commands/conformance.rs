//! `distlock conformance`.

use crate::arguments::{Conformance, Global};
use crate::exit::{Exit, Failure};

pub(super) fn execute(_global: &Global, _conformance: Conformance) -> Result<Exit, Failure> {
    Err(Failure::usage("not there yet"))
}
