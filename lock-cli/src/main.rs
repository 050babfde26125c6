//! The `distlock` command. See the crate's README.

mod addresses;
mod arguments;
mod commands;
mod durations;
#[cfg(feature = "metrics")]
mod endpoint;
#[cfg(not(feature = "metrics"))]
#[path = "no_endpoint.rs"]
mod endpoint;
mod exit;
mod labels;
mod logging;
mod message;
mod output;
mod run;
mod store;

#[cfg(not(unix))]
compile_error!("the distlock command needs Unix process groups and signals; the libraries build without");

use std::process::ExitCode;

use crate::arguments::Arguments;

fn main() -> ExitCode {
    message::explain_panics("this is a bug in distlock");
    // Processes that `run` starts beside itself; they must not pay for the rest of the command.
    if let Some(exit) = run::second_role() {
        return exit;
    }
    if let Some(exit) = distlock_bench::contend_if_asked(&distlock::registry()) {
        return exit;
    }
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return message::usage(error),
    };
    match logging::start().and_then(|()| commands::execute(arguments)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            message::say(&failure.message);
            failure.exit.into()
        }
    }
}
