//! A server, tables of a test's own, and the way from a list of async tests to a test binary.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Claim, Lease, LockBackend, LockKey, LockRequest, Result, StoreUrl, TryLock};
use distlock_sql::postgres::{LeaseRows, ServerConfig};
use distlock_sql::{mysql, postgres};
use libtest_mimic::{Arguments, Completion, Trial};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection, Row};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    MySql,
}

pub(crate) type Run = fn(Tables) -> Pin<Box<dyn Future<Output = ()>>>;
pub(crate) type Test = (&'static str, &'static [Kind], Run);

pub(crate) const BOTH: &[Kind] = &[Kind::Postgres, Kind::MySql];
pub(crate) const POSTGRES: &[Kind] = &[Kind::Postgres];
pub(crate) const MYSQL: &[Kind] = &[Kind::MySql];

/// The tests of a module, by name, and the servers that each is for.
macro_rules! tests {
    ($($name:ident on $kinds:ident),* $(,)?) => {
        pub(crate) fn tests() -> Vec<crate::support::Test> {
            vec![$((
                concat!(module_path!(), "::", stringify!($name)),
                crate::support::$kinds,
                |tables| Box::pin($name(tables)),
            )),*]
        }
    };
}
pub(crate) use tests;

/// Runs the tests on the servers that the environment names. Without one its tests show as ignored, or
/// fail with `CONFORMANCE_REQUIRE=1`.
pub(crate) fn main(tests: Vec<Test>) -> ExitCode {
    let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
    let mut trials = Vec::new();
    for (name, kinds, run) in tests {
        for kind in kinds {
            let url = std::env::var(kind.variable());
            let trial = Trial::ignorable_test(name.trim_start_matches("servers::"), move || match url {
                Ok(url) => {
                    let mut builder = tokio::runtime::Builder::new_multi_thread();
                    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
                    runtime.block_on(async {
                        let tables = Tables::new(*kind, url);
                        run(tables.clone()).await;
                        tables.drop_all().await;
                    });
                    Ok(Completion::Completed)
                }
                Err(_) if is_required => Err(format!("{} is not set", kind.variable()).into()),
                Err(_) => Ok(Completion::ignored_with(format!("{} is not set", kind.variable()))),
            });
            trials.push(trial.with_kind(format!("{kind:?}").to_lowercase()));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

impl Kind {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Postgres => Self::MySql,
            Self::MySql => Self::Postgres,
        }
    }

    pub(crate) const fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "LOCK_TEST_POSTGRES_URL",
            Self::MySql => "LOCK_TEST_MYSQL_URL",
        }
    }
}

/// A server, and the names of tables that only this test uses.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    pub(crate) name: String,
}

impl Tables {
    fn new(kind: Kind, url: String) -> Self {
        Self { kind, url, name: format!("t_{:016x}", fastrand::u64(..)) }
    }

    pub(crate) fn config(&self) -> ServerConfig {
        let mut url = StoreUrl::parse(&self.url).unwrap();
        ServerConfig::from_url(&mut url).unwrap().table(&self.name)
    }

    pub(crate) async fn try_connect(&self, config: ServerConfig) -> Result<Arc<LeaseRows>> {
        Ok(Arc::new(match self.kind {
            Kind::Postgres => postgres::connect(config).await?,
            Kind::MySql => mysql::connect(config).await?,
        }))
    }

    pub(crate) async fn connect(&self, config: ServerConfig) -> Arc<LeaseRows> {
        self.try_connect(config).await.unwrap()
    }

    pub(crate) async fn backend(&self) -> Arc<LeaseRows> {
        self.connect(self.config()).await
    }

    /// With an application's pool, whose sessions are in this time zone.
    pub(crate) async fn connect_in_zone(&self, zone: &str) -> Arc<LeaseRows> {
        Arc::new(match self.kind {
            Kind::Postgres => {
                let set = format!("SET TIME ZONE INTERVAL '{zone}' HOUR TO MINUTE");
                let options = PgPoolOptions::new().max_connections(1).after_connect(move |raw, _| {
                    let set = AssertSqlSafe(set.clone());
                    Box::pin(async move { raw.execute(sqlx::raw_sql(set)).await.map(drop) })
                });
                postgres::from_pool(options.connect(&self.url).await.unwrap(), self.config()).await.unwrap()
            }
            Kind::MySql => {
                let set = format!("SET SESSION time_zone = '{zone}'");
                let options = MySqlPoolOptions::new().max_connections(1).after_connect(move |raw, _| {
                    let set = AssertSqlSafe(set.clone());
                    Box::pin(async move { raw.execute(sqlx::raw_sql(set)).await.map(drop) })
                });
                mysql::from_pool(options.connect(&self.url).await.unwrap(), self.config()).await.unwrap()
            }
        })
    }

    pub(crate) fn statements(&self) -> Vec<(&'static str, String)> {
        match self.kind {
            Kind::Postgres => postgres::statements(&self.config()),
            Kind::MySql => mysql::statements(&self.config()),
        }
    }

    /// A connection to look behind the scenes.
    pub(crate) async fn raw(&self) -> Raw {
        let connection = match self.kind {
            Kind::Postgres => RawConnection::Postgres(PgConnection::connect(&self.url).await.unwrap()),
            Kind::MySql => RawConnection::MySql(MySqlConnection::connect(&self.url).await.unwrap()),
        };
        Raw { connection, table: self.name.clone() }
    }

    /// One statement on a connection of its own.
    pub(crate) async fn execute(&self, sql: &str) {
        self.raw().await.execute(sql).await;
    }

    /// A user of this test's own with all rights and the password `x`, by whom its sessions are known.
    pub(crate) async fn create_user(&self) -> String {
        let user = format!("u{}", &self.name[2..12]);
        self.execute(&match self.kind {
            Kind::Postgres => format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD 'x'"),
            Kind::MySql => format!("CREATE USER {user} IDENTIFIED BY 'x'; GRANT ALL ON *.* TO {user}"),
        })
        .await;
        user
    }

    pub(crate) async fn drop_user(&self, user: &str) {
        self.execute(&match self.kind {
            Kind::Postgres => format!("REASSIGN OWNED BY {user} TO current_user; DROP ROLE {user}"),
            Kind::MySql => format!("DROP USER {user}"),
        })
        .await;
    }

    async fn drop_all(&self) {
        for suffix in ["", "_claims", "_layout"] {
            self.execute(&format!("DROP TABLE IF EXISTS {}{suffix}", self.name)).await;
        }
    }
}

/// A connection past the backend. `{t}` in statements is the table with the locks.
pub(crate) struct Raw {
    connection: RawConnection,
    table: String,
}

enum RawConnection {
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

impl Raw {
    pub(crate) async fn execute(&mut self, sql: &str) {
        let sql = AssertSqlSafe(sql.replace("{t}", &self.table));
        match &mut self.connection {
            RawConnection::Postgres(raw) => drop(raw.execute(sqlx::raw_sql(sql)).await.unwrap()),
            RawConnection::MySql(raw) => drop(raw.execute(sqlx::raw_sql(sql)).await.unwrap()),
        }
    }

    /// A number in the first column of the first row.
    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.replace("{t}", &self.table));
        match &mut self.connection {
            RawConnection::Postgres(raw) => raw.fetch_one(sqlx::raw_sql(sql)).await.unwrap().get(0),
            RawConnection::MySql(raw) => raw.fetch_one(sqlx::raw_sql(sql)).await.unwrap().get(0),
        }
    }

    /// The columns `names` of all rows, as text.
    pub(crate) async fn texts(&mut self, sql: &str, names: &[&str]) -> Vec<Vec<String>> {
        let sql = AssertSqlSafe(sql.replace("{t}", &self.table));
        let mut all = Vec::new();
        match &mut self.connection {
            RawConnection::Postgres(raw) => {
                for row in raw.fetch_all(sqlx::raw_sql(sql)).await.unwrap() {
                    all.push(names.iter().map(|name| row.get::<String, _>(*name)).collect());
                }
            }
            RawConnection::MySql(raw) => {
                for row in raw.fetch_all(sqlx::raw_sql(sql)).await.unwrap() {
                    let text = |name: &&str| row.get::<Option<String>, _>(*name).unwrap_or_default();
                    all.push(names.iter().map(text).collect());
                }
            }
        }
        all
    }
}

pub(crate) fn request(key: impl AsRef<[u8]>, ttl: Duration) -> LockRequest {
    LockRequest::new(Claim::mint(self::key(key)), ttl)
}

pub(crate) fn key(key: impl AsRef<[u8]>) -> LockKey {
    LockKey::new(key).unwrap()
}

pub(crate) async fn take(backend: &LeaseRows, request: &LockRequest) -> Lease {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// Waits until a condition holds, for at most half a minute.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("in vain: {what}");
}

pub(crate) const S: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);
