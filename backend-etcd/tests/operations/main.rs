//! What an operator does and meets: rights, certificates, a store that is full, costs, and data behind a fence.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

mod administering;
mod costs;
mod doubting;
#[cfg(feature = "tls")]
mod encrypting;
mod fencing;
mod gathering;
mod reusing;
mod rights;
mod sharing;
#[path = "../support/mod.rs"]
mod support;
mod writing;

fn main() -> std::process::ExitCode {
    let tests = [
        administering::tests(),
        costs::tests(),
        doubting::tests(),
        #[cfg(feature = "tls")]
        encrypting::tests(),
        fencing::tests(),
        gathering::tests(),
        reusing::tests(),
        rights::tests(),
        sharing::tests(),
        writing::tests(),
    ];
    support::main(tests.concat())
}
