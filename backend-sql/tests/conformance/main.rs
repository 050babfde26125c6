//! The conformance suite on the SQL stores that this build has and the environment names.
//!
//! `LOCK_TEST_POSTGRES_URL` and `LOCK_TEST_MYSQL_URL` name servers; SQLite needs none.
//! `CONFORMANCE_STORE=sqlite`, `postgres`, `pgbouncer`, `postgres-advisory`, `mysql` or `mysql-named` picks one store;
//! without it, each of them that is there is tested in a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sessions;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::process::{Command, ExitCode};

/// Which store to test.
const STORE: &str = "CONFORMANCE_STORE";

/// The stores of this build, and the variable that has to name their server.
const STORES: &[(&str, Option<&str>)] = &[
    #[cfg(feature = "sqlite")]
    ("sqlite", None),
    #[cfg(feature = "postgres")]
    ("postgres", Some(postgres::VARIABLE)),
    #[cfg(feature = "postgres")]
    ("pgbouncer", Some(postgres::POOLED)),
    #[cfg(feature = "postgres")]
    ("postgres-advisory", Some(postgres::VARIABLE)),
    #[cfg(feature = "mysql")]
    ("mysql", Some(mysql::VARIABLE)),
    #[cfg(feature = "mysql")]
    ("mysql-named", Some(mysql::VARIABLE)),
];

fn main() -> ExitCode {
    let wanted = std::env::var(STORE).ok();
    let is_there = |variable: &Option<&str>| variable.is_none_or(|name| std::env::var_os(name).is_some());
    let chosen: Vec<_> = match &wanted {
        Some(wanted) => STORES.iter().filter(|(name, _)| name == wanted).collect(),
        // A store that is not configured is passed over, unless none is.
        None if STORES.iter().any(|(_, variable)| is_there(variable)) => {
            STORES.iter().filter(|(_, variable)| is_there(variable)).collect()
        }
        None => STORES.iter().take(1).collect(),
    };
    match chosen.as_slice() {
        [] => {
            eprintln!("{STORE}={} names no store of this build", wanted.unwrap_or_default());
            ExitCode::FAILURE
        }
        [(only, _)] => run(only),
        several => each(several),
    }
}

fn run(store: &str) -> ExitCode {
    match store {
        #[cfg(feature = "sqlite")]
        "sqlite" => distlock_conformance::main(sqlite::Sqlite::new()),
        #[cfg(feature = "postgres")]
        "postgres" => distlock_conformance::main(postgres::Postgres { pooled: false }),
        #[cfg(feature = "postgres")]
        "pgbouncer" => distlock_conformance::main(postgres::Postgres { pooled: true }),
        #[cfg(feature = "postgres")]
        "postgres-advisory" => distlock_conformance::main(sessions::Advisory),
        #[cfg(feature = "mysql")]
        "mysql-named" => distlock_conformance::main(sessions::Named),
        #[cfg(feature = "mysql")]
        "mysql" => distlock_conformance::main(mysql::MySql),
        _ => unreachable!("all stores of the list are here"),
    }
}

/// Runs the suite on each store in turn, each in a process of its own.
fn each(stores: &[&(&str, Option<&str>)]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (store, _) in stores {
        let program = std::env::current_exe();
        let arguments = std::env::args_os().skip(1);
        let status =
            program.and_then(|program| Command::new(program).args(arguments).env(STORE, store).status());
        if !status.is_ok_and(|status| status.success()) {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Whether the environment names a server.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn named_by(variable: &str, group: &str) -> Result<(), String> {
    match std::env::var_os(variable) {
        Some(_) => Ok(()),
        None => Err(format!("start a server (`dev/services.sh up {group}`) and name it by {variable}")),
    }
}
