//! Advisory locks, of transactions and of sessions, with poolers in between; and lease rows behind a pooler that
//! mixes up its clients.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the harness serves several programs"
)]

#[path = "../harness/mod.rs"]
mod harness;
mod losing;
mod mixed_up;
#[path = "../harness/proxied.rs"]
mod proxied;
mod sessions;
mod silence;
mod sleeping;
mod transactions;

use distlock_testbed::lockprobe;

fn main() -> std::process::ExitCode {
    if lockprobe::asked() {
        return lockprobe::main(async |url| {
            sessions::connect_to(if url.starts_with("mysql") { "mysql" } else { "postgres" }, &url).await
        });
    }
    let tests = [
        losing::tests(),
        mixed_up::tests(),
        sessions::tests(),
        silence::tests(),
        sleeping::tests(),
        transactions::tests(),
    ];
    harness::main(tests.concat())
}

fn key(name: &str) -> distlock_core::LockKey {
    distlock_core::LockKey::new(name).unwrap()
}
