//! Data in databases that refuses writers that came too late.
#![allow(
    clippy::unwrap_used,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the harness serves several programs"
)]

mod column;
#[path = "../harness/mod.rs"]
mod harness;
mod table;

/// The tests that follow once for each kind of database of this build.
macro_rules! on_each_database {
    ($each:ident) => {
        #[cfg(feature = "postgres")]
        mod postgres {
            $each!(postgres, Postgres, ["postgres"], crate::pool_of_postgres);
        }
        #[cfg(feature = "mysql")]
        mod mysql {
            $each!(mysql, MySql, ["mysql"], crate::pool_of_mysql);
        }
        #[cfg(feature = "sqlite")]
        mod sqlite {
            $each!(sqlite, Sqlite, [], crate::pool_of_sqlite);
        }

        pub(crate) fn tests() -> Vec<crate::harness::Test> {
            [
                #[cfg(feature = "postgres")]
                postgres::tests(),
                #[cfg(feature = "mysql")]
                mysql::tests(),
                #[cfg(feature = "sqlite")]
                sqlite::tests(),
            ]
            .concat()
        }
    };
}
use on_each_database;

fn main() -> std::process::ExitCode {
    harness::main([column::tests(), table::tests()].concat())
}

fn token(value: u64) -> distlock_core::FencingToken {
    distlock_core::FencingToken::new(value).unwrap()
}

fn key(name: &str) -> distlock_core::LockKey {
    distlock_core::LockKey::new(name).unwrap()
}

#[cfg(feature = "postgres")]
async fn pool_of_postgres() -> sqlx::PgPool {
    sqlx::PgPool::connect(&harness::shared("postgres").await).await.unwrap()
}

#[cfg(feature = "mysql")]
async fn pool_of_mysql() -> sqlx::MySqlPool {
    sqlx::MySqlPool::connect(&harness::shared("mysql").await).await.unwrap()
}

#[cfg(feature = "sqlite")]
async fn pool_of_sqlite() -> sqlx::SqlitePool {
    let folder = tempfile::tempdir().unwrap().keep();
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(folder.join("data.db"))
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
    sqlx::SqlitePool::connect_with(options).await.unwrap()
}
