//! Lease rows on the database servers that `LOCK_TEST_POSTGRES_URL` and `LOCK_TEST_MYSQL_URL` name, each
//! test with tables of its own. Tests with a number of a fault reported against another library bear it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::future_not_send,
    reason = "a test may panic, and ends its tasks"
)]

mod clocks;
mod connections;
mod damage;
mod explain;
mod facts;
mod gathering;
mod many_keys;
#[path = "../harness/proxied.rs"]
mod proxied;
mod repeats;
mod scenarios;
mod schema;
mod slow_openings;
mod support;
mod waiting;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        clocks::tests(),
        connections::tests(),
        damage::tests(),
        explain::tests(),
        facts::tests(),
        gathering::tests(),
        many_keys::tests(),
        repeats::tests(),
        scenarios::tests(),
        schema::tests(),
        slow_openings::tests(),
        waiting::tests(),
    ];
    support::main(tests.concat())
}
