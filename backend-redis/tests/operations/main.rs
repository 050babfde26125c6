//! What operators do and see: administration, the probe, credentials, fences, encryption.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

mod administering;
mod credentials;
#[cfg(feature = "tls")]
mod encrypting;
#[cfg(feature = "tls")]
mod encrypting_sets;
mod fencing;
mod probing;
#[path = "../support/mod.rs"]
mod support;

fn main() -> std::process::ExitCode {
    support::main(
        [
            administering::tests(),
            credentials::tests(),
            #[cfg(feature = "tls")]
            encrypting::tests(),
            #[cfg(feature = "tls")]
            encrypting_sets::tests(),
            fencing::tests(),
            probing::tests(),
        ]
        .concat(),
    )
}
