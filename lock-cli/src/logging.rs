//! The library's own log, for those who ask for it.

use std::env;
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::exit::Failure;

/// The variable that asks for a log on standard error: `debug`, or a filter by module.
const VARIABLE: &str = "DISTLOCK_LOG";

/// Starts logging to standard error if the environment asks for it. Each store operation is a span,
/// logged when it ends.
pub(crate) fn start() -> Result<(), Failure> {
    let Ok(filter) = env::var(VARIABLE) else { return Ok(()) };
    let filter = EnvFilter::builder().parse(&filter).map_err(|error| {
        Failure::usage(format!("{VARIABLE} is no log filter ({error}); write for example `debug`"))
    })?;
    // A second subscriber can't be there: this is the program's start.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(io::stderr)
        .with_ansi(wants_colours())
        .try_init();
    Ok(())
}

/// Colours are for people: in a file or a pipe they are noise.
fn wants_colours() -> bool {
    io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
