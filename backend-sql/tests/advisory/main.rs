//! Advisory locks: of transactions and of sessions, with poolers in between.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the harness serves several programs"
)]

#[path = "../harness/mod.rs"]
mod harness;
mod losing;
#[path = "../harness/proxied.rs"]
mod proxied;
mod sessions;
mod silence;
mod transactions;

fn main() -> std::process::ExitCode {
    harness::main([losing::tests(), sessions::tests(), silence::tests(), transactions::tests()].concat())
}

fn key(name: &str) -> distlock_core::LockKey {
    distlock_core::LockKey::new(name).unwrap()
}
