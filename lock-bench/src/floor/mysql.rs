//! The floor of the MySQL store: two statements on one connection.

use std::sync::Arc;

use distlock::mysql::ServerConfig;
use distlock::{Error, ErrorKind, OwnerId, Result, StoreUrl};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use super::Floor;
use super::connections::{CONNECTIONS, Connections, Used};

/// The same row as the store's.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS distlock_bench_floor (lock_key VARBINARY(512) NOT NULL PRIMARY KEY, token BIGINT NOT NULL,
 owner BINARY(16), expires_at BIGINT, ttl BIGINT, metadata VARCHAR(1024) CHARACTER SET utf8mb4 NOT NULL) ENGINE = InnoDB";

/// One upsert that takes a free or expired lock and draws a higher token. The values stand as often as
/// they are needed.
const ACQUIRE: &str = "INSERT INTO distlock_bench_floor (lock_key, owner, ttl, metadata, token, expires_at)
 VALUES (?, ?, ?, ?, LAST_INSERT_ID({now}), {now} + 30000000)
 ON DUPLICATE KEY UPDATE
   token = IF(expires_at > {now}, token + LAST_INSERT_ID(0), LAST_INSERT_ID(GREATEST(token + 1, {now}))),
   owner = IF(expires_at > {now}, owner, VALUES(owner)), ttl = IF(expires_at > {now}, ttl, VALUES(ttl)),
   metadata = IF(expires_at > {now}, metadata, VALUES(metadata)),
   expires_at = IF(expires_at > {now}, expires_at, VALUES(expires_at))";

/// One update that gives it back, if it is still its owner's.
const RELEASE: &str =
    "UPDATE distlock_bench_floor SET owner = NULL, expires_at = NULL, ttl = NULL, metadata = ''
 WHERE lock_key = ? AND owner = ? AND expires_at > {now}";

const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

const METADATA: &str = "host=localhost pid=12345";
const TTL_MICROS: i64 = 30_000_000;

/// Connections beside the store's, and a table of its own, in which each run has its own keys.
#[derive(Debug)]
pub(crate) struct MySqlFloor {
    connections: Connections<MySqlConnection>,
    sql: Arc<Sql>,
    used: Option<Used<MySqlConnection>>,
    owner: OwnerId,
}

impl Floor for MySqlFloor {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let config = ServerConfig::from_url(&mut url.clone())?;
        let server = config.servers.first().map_or("localhost", String::as_str);
        let (host, port) = server.rsplit_once(':').unwrap_or((server, "3306"));
        let mut options = MySqlConnectOptions::new()
            .host(host)
            .port(port.parse().unwrap_or(3306))
            .username(config.user.as_deref().unwrap_or("root"))
            .database(config.database.as_deref().unwrap_or_default())
            .disable_statement_logging();
        if let Some(password) = &config.password {
            options = options.password(password);
        }
        let mut opened = Vec::new();
        for _ in 0..CONNECTIONS {
            let connection = async {
                let mut connection = MySqlConnection::connect_with(&options).await?;
                let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                sqlx::raw_sql(level).execute(&mut connection).await?;
                Ok(connection)
            };
            opened.push(connection.await.map_err(|error| failed("connect", error))?);
        }
        if let Some(first) = opened.first_mut() {
            sqlx::raw_sql(TABLE).execute(first).await.map_err(|error| failed("make a table", error))?;
        }
        let sql = Arc::new(Sql::new());
        Ok(Self { connections: Connections::new(opened), sql, used: None, owner: OwnerId::random() })
    }

    fn another(&self) -> Option<Self> {
        Some(Self {
            connections: self.connections.share(),
            sql: Arc::clone(&self.sql),
            used: None,
            owner: OwnerId::random(),
        })
    }

    async fn acquire(&mut self, lane: usize) -> Result<()> {
        self.owner = OwnerId::random();
        let Some(mut used) = self.connections.take().await else { return Err(lost()) };
        let granted = sqlx::query(AssertSqlSafe(Arc::clone(&self.sql.acquire)))
            .bind(self.sql.key(lane))
            .bind(self.owner.as_bytes().as_slice())
            .bind(TTL_MICROS)
            .bind(METADATA)
            .execute(&mut used.connection)
            .await
            .map(|done| done.last_insert_id() > 0);
        match granted.map_err(|error| failed("take the bare lock", error))? {
            true => self.used = Some(used),
            false => return Err(Error::new(ErrorKind::Other, "the bare lock was not free")),
        }
        Ok(())
    }

    async fn release(&mut self, lane: usize) -> Result<()> {
        let Some(mut used) = self.used.take() else { return Err(lost()) };
        let released = sqlx::query(AssertSqlSafe(Arc::clone(&self.sql.release)))
            .bind(self.sql.key(lane))
            .bind(self.owner.as_bytes().as_slice())
            .execute(&mut used.connection)
            .await;
        match released.map_err(|error| failed("release the bare lock", error))?.rows_affected() {
            1 => self.connections.put(used),
            _ => return Err(Error::new(ErrorKind::Other, "the bare lock was not held")),
        }
        Ok(())
    }
}

/// The statements' texts, made once.
#[derive(Debug)]
struct Sql {
    acquire: Arc<str>,
    release: Arc<str>,
    run: u64,
}

impl Sql {
    fn new() -> Self {
        let text = |text: &str| text.replace("{now}", NOW).into();
        Self { acquire: text(ACQUIRE), release: text(RELEASE), run: fastrand::u64(..) }
    }

    fn key(&self, lane: usize) -> Vec<u8> {
        format!("{:016x}/{lane}", self.run).into_bytes()
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Unavailable, "a connection of the floor was lost")
}

fn failed(what: &str, error: sqlx::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("can't {what} for the floor")).caused_by(error)
}
