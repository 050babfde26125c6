//! The command on Redis servers: those that `LOCK_TEST_REDIS_URL`, `LOCK_TEST_SENTINEL_URL` and
//! `LOCK_TEST_CLUSTER_URL` name, and one of a test's own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests: a failure is a panic, time is the wall's, conditions are polled"
)]

#[allow(dead_code, reason = "what other tests use")]
#[path = "../cli/rig.rs"]
mod rig;

mod refusals;
mod sharing;
mod vanishing;

use std::process::ExitCode;

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
    trials.push(Trial::ignorable_test("vanishing::a_server_that_dies_takes_the_command_along", || {
        if !vanishing::has_server() {
            return missing("redis-server is not installed".to_owned());
        }
        vanishing::a_server_that_dies_takes_the_command_along();
        Ok(Completion::Completed)
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

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
