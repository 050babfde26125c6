//! Runs what needs etcd on the servers that `LOCK_TEST_ETCD_URL` and `LOCK_TEST_ETCD3_URL` name.

mod fencing;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Runs on one server keep apart.
    fencing::main("fenced_etcd", ["ETCD", "ETCD3"], |url| format!("{url}/{}", distlock::OwnerId::random()))
}
