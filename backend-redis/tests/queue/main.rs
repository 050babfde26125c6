//! The queue of FIFO mode, on servers of its own.
//!
//! Tests whose name begins with a number guard against a fault that was reported of another library's
//! fair lock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

mod administering;
mod chaos;
mod clocks;
mod crowds;
mod dying;
mod leaving;
mod program;
mod rig;
mod sharing;
#[path = "../support/mod.rs"]
mod support;
mod turns;

fn main() -> std::process::ExitCode {
    if let Some(code) = program::serve_if_asked() {
        return code;
    }
    let tests = [
        administering::tests(),
        chaos::tests(),
        clocks::tests(),
        crowds::tests(),
        dying::tests(),
        leaving::tests(),
        sharing::tests(),
        turns::tests(),
    ];
    support::main(tests.concat())
}
