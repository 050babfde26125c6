//! Runs what needs Redis on the servers that `LOCK_TEST_REDIS_URL`, `LOCK_TEST_SENTINEL_URL` and
//! `LOCK_TEST_CLUSTER_URL` name.

mod fencing;

use std::process::ExitCode;

fn main() -> ExitCode {
    fencing::main("fenced_redis", ["REDIS", "SENTINEL", "CLUSTER"], |url| url)
}
