//! The fault cells of all stores but etcd, which has a program of its own. See [`cells_program`].

use std::process::ExitCode;

use distlock_core::Registry;
use distlock_testbed::cells_program;
use distlock_testbed::grid::Store;

fn main() -> ExitCode {
    let stores: Vec<_> = Store::ALL.into_iter().filter(|store| *store != Store::Etcd).collect();
    cells_program(&stores, |url| async move {
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
