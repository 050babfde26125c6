//! A majority of independent servers, which may be hurt.
//!
//! Faults that were reported against other Redlock libraries are known by numbers:
//!
//! | number | what went wrong elsewhere | covered by |
//! |---|---|---|
//! | B012 | a renewal that fails in the background ends the program | `scenarios::b012` |
//! | B013 | releasing a lost lock takes seconds | `scenarios::b013` |
//! | B014 | validity counts from the first attempt of a long wait | `timeouts::b014_validity_counts_from_the_last_attempt` |
//! | B037 | every server granted, and the lock was over by then | `scenarios::b037` |
//! | B038 | one server that fails to renew releases the lock everywhere | `scenarios::b038` |
//! | B039 | a server that forgot the lock gives a rival its majority | `forgetting::b039` |
//! | B040 | one slow server holds up every call | `scenarios::b040` |
//! | B043 | acquiring never gives up | `scenarios::b043` |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and wait with deadlines"
)]

mod costing;
mod failing;
mod forgetting;
mod nemesis;
mod rig;
mod scenarios;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with tests of single servers")]
mod support;
mod voting;

fn main() -> std::process::ExitCode {
    support::main(
        [
            costing::tests(),
            failing::tests(),
            forgetting::tests(),
            nemesis::tests(),
            scenarios::tests(),
            voting::tests(),
        ]
        .concat(),
    )
}
