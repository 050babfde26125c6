//! The command on servers: those that `LOCK_TEST_REDIS_URL`, `LOCK_TEST_SENTINEL_URL`,
//! `LOCK_TEST_CLUSTER_URL` and the like name, and Redis servers of a test's own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests: a failure is a panic, time is the wall's, conditions are polled"
)]

#[allow(dead_code, reason = "what other tests use")]
#[path = "../cli/rig.rs"]
mod rig;

#[path = "../cli/mayhem.rs"]
mod mayhem;

#[path = "../cli/page.rs"]
mod page;

mod examining;
mod kills;
mod refusals;
mod server;
mod sharing;
mod vanishing;

use std::process::ExitCode;

use server::Server;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

const STORES: [&str; 3] = ["redis", "sentinel", "cluster"];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for store in STORES {
        for (name, test) in sharing::TESTS {
            trials.push(on(store, name, *test));
        }
    }
    for (name, test) in refusals::TESTS {
        trials.push(on("redis", name, *test));
    }
    let databases = [
        ("postgres", cfg!(feature = "postgres")),
        ("mysql", cfg!(feature = "mysql")),
        ("etcd", cfg!(feature = "etcd")),
        ("zk", cfg!(feature = "zk")),
    ];
    for (store, _) in databases.into_iter().filter(|(_, is_built)| *is_built) {
        trials.push(on(
            store,
            "examining::a_store_that_works_is_examined",
            examining::a_store_that_works_is_examined,
        ));
    }
    for (name, test) in OWN {
        trials.push(Trial::ignorable_test(*name, move || {
            if !Server::is_installed() {
                return missing("redis-server is not installed".to_owned());
            }
            test();
            Ok(Completion::Completed)
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Tests with servers of their own.
const OWN: &[(&str, fn())] = &[
    (
        "vanishing::a_server_that_dies_takes_the_command_along",
        vanishing::a_server_that_dies_takes_the_command_along,
    ),
    (
        "kills::random_kills_leave_neither_processes_nor_locks",
        kills::random_kills_leave_neither_processes_nor_locks,
    ),
    (
        "examining::what_endangers_locks_is_found_with_its_remedy",
        examining::what_endangers_locks_is_found_with_its_remedy,
    ),
    ("examining::missing_rights_show", examining::missing_rights_show),
];

type Test = (&'static str, fn(&str));

/// A test on the store that the environment names.
fn on(store: &'static str, name: &str, test: fn(&str)) -> Trial {
    Trial::ignorable_test(format!("{store}::{name}"), move || {
        let variable = format!("LOCK_TEST_{}_URL", store.to_uppercase());
        let Ok(url) = std::env::var(&variable) else {
            return missing(format!(
                "start a server (`dev/services.sh up {store}`) and name it by {variable}"
            ));
        };
        test(&url);
        Ok(Completion::Completed)
    })
}

/// What can't be tested shows as ignored, or fails with `CONFORMANCE_REQUIRE=1` in the environment.
fn missing(reason: String) -> Result<Completion, Failed> {
    if std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1") {
        return Err(reason.into());
    }
    Ok(Completion::ignored_with(reason))
}
