//! The fault cells of etcd. Here, and not beside those of the other stores, since it takes protoc to be built.

use std::process::ExitCode;

use distlock_core::Registry;
use distlock_testbed::cells_program;
use distlock_testbed::grid::Store;

fn main() -> ExitCode {
    cells_program(&[Store::Etcd], |url| async move {
        Registry::new().with(distlock_etcd::driver()).connect(&url).await
    })
}
