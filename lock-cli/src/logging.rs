//! The library's own log, for those who ask for it.

use std::env;
use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;

use crate::exit::Failure;

/// The variable that asks for a log on standard error: `debug`, or a filter by module.
const VARIABLE: &str = "DISTLOCK_LOG";

/// Starts logging to standard error if the environment asks for it. Each store operation is a span,
/// logged when it ends.
pub(crate) fn start() -> Result<(), Failure> {
    let Ok(filter) = env::var(VARIABLE) else { return Ok(()) };
    let filter: Targets = filter.parse().map_err(|error| {
        Failure::usage(format!("{VARIABLE} is no log filter ({error}); write for example `debug`"))
    })?;
    let lines =
        fmt::layer().with_span_events(FmtSpan::CLOSE).with_writer(io::stderr).with_ansi(wants_colours());
    // A second subscriber can't be there: this is the program's start.
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
    Ok(())
}

/// Colours are for people: in a file or a pipe they are noise.
fn wants_colours() -> bool {
    io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
