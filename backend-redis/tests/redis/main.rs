//! The backend on servers of its own, which may be hurt.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and wait with deadlines"
)]

mod connecting;
mod fast_paths;
mod locking;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
mod waiting;

fn main() -> std::process::ExitCode {
    let tests =
        [connecting::tests(), fast_paths::tests(), locking::tests(), refusals::tests(), waiting::tests()];
    support::main(tests.concat())
}
