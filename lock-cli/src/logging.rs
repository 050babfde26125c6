//! The library's own log, for those who ask for it.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::exit::Failure;

/// The variable that asks for a log on standard error: `debug`, or a filter by module.
const VARIABLE: &str = "DISTLOCK_LOG";

/// Starts logging to standard error if the environment asks for it. Each store operation is a span,
/// logged when it ends.
pub(crate) fn start() -> Result<(), Failure> {
    let Ok(filter) = std::env::var(VARIABLE) else { return Ok(()) };
    let filter = EnvFilter::builder().parse(&filter).map_err(|error| {
        Failure::usage(format!("{VARIABLE} is no log filter ({error}); write for example `debug`"))
    })?;
    // A second subscriber can't be there: this is the program's start.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(io::stderr)
        .try_init();
    Ok(())
}
