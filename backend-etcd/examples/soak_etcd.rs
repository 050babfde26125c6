//! `make soak B=etcd3 SECS=300`: a long run on etcd. Here, and not beside that of the other stores, since it takes
//! protoc to be built. See [`soak_program`].

use std::process::ExitCode;

use distlock_core::Registry;
use distlock_testbed::soak_program;

fn main() -> ExitCode {
    soak_program(|url| async move { Registry::new().with(distlock_etcd::driver()).connect(&url).await })
}
