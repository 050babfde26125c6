//! What each command does, one file a command.

mod bench;
mod check;
mod completions;
mod conformance;
mod doctor;
mod force_unlock;
mod info;
mod inspect;
mod list;
mod man;
mod run;
mod schema;
mod try_lock;
mod watch;

use std::future::Future;
use std::time::Duration;

use distlock::LockClient;
use tokio::runtime::Builder;

use crate::arguments::{Arguments, Command, Format};
use crate::exit::{Exit, Failure};
use crate::output::Printer;

/// How long the end of a command may take: releasing what is left, closing the store.
const FAREWELL: Duration = Duration::from_secs(2);

/// Carries out the command line.
pub(crate) fn execute(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { global, command } = arguments;
    if global.format == Format::Junit && !matches!(command, Command::Conformance(_)) {
        return Err(Failure::usage("only `conformance` can print junit; use --format text or json"));
    }
    let printer = Printer::new(global.format);
    match command {
        Command::Run(run) => with_runtime(run::execute(&global, run)),
        Command::Try(try_lock) => with_runtime(try_lock::execute(&global, &printer, try_lock)),
        Command::Ls(list) => with_runtime(list::execute(&global, &printer, list)),
        Command::Inspect(inspect) => with_runtime(inspect::execute(&global, &printer, inspect)),
        Command::ForceUnlock(force) => with_runtime(force_unlock::execute(&global, &printer, force)),
        Command::Info => with_runtime(info::execute(&global, &printer)),
        Command::Doctor(_) => with_runtime(doctor::execute(&global, &printer)),
        Command::Watch(watch) => with_runtime(watch::execute(&global, &printer, watch)),
        Command::Schema(schema) => with_runtime(schema::execute(&global, &printer, schema)),
        Command::Conformance(conformance) => conformance::execute(&global, &printer, conformance),
        Command::Bench(bench) => with_all_cores(bench::execute(&global, &printer, bench)),
        Command::Check(check) => check::execute(&printer, &check),
        Command::Man(man) => man::execute(&printer, &man),
        Command::Completions(completions) => completions::execute(&printer, &completions),
    }
}

/// Runs a command to its end. The client's renewals go on in a thread of their own, so that a main
/// thread that is held up (a blocked standard error) does not cost the lock.
fn with_runtime<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on(Builder::new_multi_thread().worker_threads(1), command)
}

/// Runs a command that makes load.
fn with_all_cores<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on(&mut Builder::new_multi_thread(), command)
}

fn block_on<T>(
    builder: &mut Builder,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = builder.enable_all().build().map_err(|error| Failure::system("can't start", error))?;
    let result = runtime.block_on(command);
    // Whatever still hangs in a driver must not keep the caller waiting.
    runtime.shutdown_background();
    result
}

/// Releases what is left and closes the store.
async fn close(client: &LockClient) {
    // What is not released by then runs out by itself, and its owner has said so.
    let _ = client.shutdown(FAREWELL).await;
}
