//! A cluster whose members fail: what goes on, for how long it stands still, and that nothing is lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests stop at the first surprise, and wait with deadlines"
)]

mod load;
mod members;
mod minority;
#[path = "../support/polling.rs"]
mod polling;
mod successors;

use std::process::ExitCode;

use distlock_testbed::{Partition, ServiceSet};
use libtest_mimic::{Arguments, Completion, Trial};

/// Name, whether it needs a network of its own, what to do.
type Test = (&'static str, bool, fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test has servers of its own.
    arguments.test_threads = Some(1);
    let trials =
        members::tests().into_iter().chain(minority::tests()).chain(successors::tests()).map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial((name, needs_network, run): Test) -> Trial {
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    Trial::ignorable_test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
        let network = if needs_network { Partition::available() } else { Ok(()) };
        if let Err(missing) = network {
            return Ok(Completion::ignored_with(missing));
        }
        match runtime.block_on(ServiceSet::available(&["etcd3"])) {
            Err(missing) if !is_required => Ok(Completion::ignored_with(missing)),
            Err(missing) => Err(missing.into()),
            Ok(()) => {
                runtime.block_on(run());
                Ok(Completion::Completed)
            }
        }
    })
}

/// The tests of a module.
macro_rules! tests {
    ($network:literal: $($name:ident),* $(,)?) => {
        pub(crate) fn tests() -> Vec<crate::Test> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), $network, || Box::pin($name()))),*]
        }
    };
}
use tests;
