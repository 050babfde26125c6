//! Faults that were reported against other lock libraries, as scenarios for this backend. The numbers in
//! the names are those of the reports.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

#[path = "../support/mod.rs"]
mod support;

mod crowd;
mod losing;
mod nodes;
mod reconnecting;
mod waiting;

fn main() -> std::process::ExitCode {
    support::main(
        [crowd::tests(), losing::tests(), nodes::tests(), reconnecting::tests(), waiting::tests()].concat(),
        true,
    )
}
