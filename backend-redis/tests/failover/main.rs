//! Failovers of real servers: what goes on, what is lost, and that nothing else is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests stop at the first surprise, and wait with deadlines"
)]

mod cluster;
mod leaving;
mod load;
mod migration;
mod operating;
#[path = "../support/polling.rs"]
mod polling;
mod renewing;
mod replicas;
mod sentinel;
mod servers;
mod unfit;
mod waiting;

use std::process::ExitCode;

use distlock_testbed::ServiceSet;
use libtest_mimic::{Arguments, Completion, Trial};

use servers::Test;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test has six servers and more of its own.
    arguments.test_threads = Some(1);
    let tests = [
        sentinel::tests(),
        cluster::tests(),
        leaving::tests(),
        migration::tests(),
        operating::tests(),
        renewing::tests(),
        replicas::tests(),
        unfit::tests(),
        waiting::tests(),
    ];
    let trials = tests.into_iter().flatten().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial((name, group, run): Test) -> Trial {
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    Trial::ignorable_test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
            match ServiceSet::available(&[group]).await {
                Err(missing) if !is_required => Ok(Completion::ignored_with(missing)),
                Err(missing) => Err(missing.into()),
                Ok(()) => {
                    let set = ServiceSet::up(&[group]).await?;
                    run(&set).await;
                    set.down().await;
                    Ok(Completion::Completed)
                }
            }
        })
    })
}
