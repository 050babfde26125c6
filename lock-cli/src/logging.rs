//! The library's own log, for those who ask for it.

use std::io;

use tracing_subscriber::EnvFilter;

/// The variable that asks for a log on standard error: `debug`, or a filter by module.
const VARIABLE: &str = "DISTLOCK_LOG";

/// Starts logging to standard error if the environment asks for it.
pub(crate) fn start() {
    let Ok(filter) = EnvFilter::try_from_env(VARIABLE) else { return };
    // A second subscriber can't be there: this is the program's start.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).try_init();
}
