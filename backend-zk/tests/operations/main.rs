//! What operators do, and what happens to servers: on servers of the tests' own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod crew;
mod demanding;
#[cfg(feature = "tls")]
mod encrypting;
mod failing;
mod fencing;
mod histories;
mod nodes;
mod partitions;
mod passing;
mod sessions;

use std::sync::Arc;

use distlock_core::{LockBackend, Result, StoreUrl};
use distlock_testbed::lockprobe;
use distlock_zk::ZkBackend;

async fn probe_backend(url: String) -> Result<Arc<dyn LockBackend>> {
    Ok(Arc::new(ZkBackend::from_url(&mut StoreUrl::parse(&url)?).await?))
}

fn main() -> std::process::ExitCode {
    if lockprobe::asked() {
        return lockprobe::main(probe_backend);
    }
    let tests = [
        access::tests(),
        demanding::tests(),
        failing::tests(),
        fencing::tests(),
        histories::tests(),
        nodes::tests(),
        partitions::tests(),
        passing::tests(),
        sessions::tests(),
    ]
    .concat();
    #[cfg(feature = "tls")]
    let tests = [tests, encrypting::tests()].concat();
    support::main(tests, true)
}
