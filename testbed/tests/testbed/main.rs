//! The test bed on real servers, real networks and real processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits in real time"
)]

mod groups;
mod lockprobes;
mod members;
mod nemesis;
mod owner;
mod partitions;
mod resp;
mod services;
mod support;

use std::process::ExitCode;

use distlock_testbed::{Partition, ServiceSet, lockprobe};
use libtest_mimic::{Arguments, Trial};
use support::Missing;

fn main() -> ExitCode {
    if lockprobe::asked() {
        return lockprobe::main(lockprobes::connect);
    }
    if let Some(what) = owner::asked() {
        owner::own(&what);
    }
    let redis = Missing::required(support::block_on(ServiceSet::available(&["redis"])));
    let network_alone = Missing::optional(Partition::available());
    let network = redis.or(network_alone.clone());
    let trials: Vec<Trial> = [services::trials(&redis), partitions::trials(&network)]
        .into_iter()
        .chain([groups::trials(), members::trials(&network_alone)])
        .chain([nemesis::trials(&redis, &network), lockprobes::trials()])
        .flatten()
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
