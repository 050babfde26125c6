//! `make soak B=redis SECS=300`: a long run on any store but etcd, which has a program of its own. See [`soak_program`].

use std::process::ExitCode;

use distlock_core::Registry;
use distlock_testbed::soak_program;

fn main() -> ExitCode {
    soak_program(|url| async move {
        Registry::new()
            .with(distlock_sql::mysql::driver())
            .with(distlock_sql::postgres::driver())
            .with(distlock_sql::sqlite::driver())
            .with(distlock_redis::driver())
            .with(distlock_redis::redlock_driver())
            .with(distlock_zk::driver())
            .connect(&url)
            .await
    })
}
