//! The floor of the PostgreSQL store: two statements on one connection.

use std::sync::Arc;

use distlock::postgres::ServerConfig;
use distlock::{Error, ErrorKind, OwnerId, Result, StoreUrl};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use super::Floor;
use super::connections::{CONNECTIONS, Connections, Used};

/// The same row as the store's. Logged, so that it is as durable as the store's.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS distlock_bench_floor (lock_key bytea PRIMARY KEY, token bigint NOT NULL, owner bytea,
 expires_at bigint, ttl bigint, metadata text NOT NULL) WITH (fillfactor = 70)";

/// One upsert that takes a free or expired lock and draws a higher token.
const ACQUIRE: &str =
    "INSERT INTO distlock_bench_floor AS l (lock_key, token, owner, expires_at, ttl, metadata)
 VALUES ($1, {now}, $2, {now} + $3, $3, $4)
 ON CONFLICT (lock_key) DO UPDATE SET token = greatest(l.token + 1, excluded.token), owner = excluded.owner,
   expires_at = excluded.expires_at, ttl = excluded.ttl, metadata = excluded.metadata
 WHERE l.expires_at IS NULL OR l.expires_at <= excluded.token OR l.owner = excluded.owner RETURNING token";

/// One update that gives it back, if it is still its owner's.
const RELEASE: &str =
    "UPDATE distlock_bench_floor SET owner = NULL, expires_at = NULL, ttl = NULL, metadata = ''
 WHERE lock_key = $1 AND owner = $2 AND expires_at > {now}";

const NOW: &str = "CAST(date_part('epoch', clock_timestamp()) * CAST(1000000 AS float8) AS bigint)";

const METADATA: &str = "host=localhost pid=12345";
const TTL_MICROS: i64 = 30_000_000;

/// Connections beside the store's, and a table of its own, in which each run has its own keys.
#[derive(Debug)]
pub(crate) struct PostgresFloor {
    connections: Connections<PgConnection>,
    sql: Arc<Sql>,
    used: Option<Used<PgConnection>>,
    owner: OwnerId,
}

impl Floor for PostgresFloor {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let config = ServerConfig::from_url(&mut url.clone())?;
        let server = config.servers.first().map_or("localhost", String::as_str);
        let (host, port) = server.rsplit_once(':').unwrap_or((server, "5432"));
        let user = config.user.as_deref().unwrap_or("postgres");
        let mut options = PgConnectOptions::new_without_pgpass()
            .host(host)
            .port(port.parse().unwrap_or(5432))
            .username(user)
            .database(config.database.as_deref().unwrap_or(user))
            .options([("synchronous_commit", "on")])
            .disable_statement_logging();
        if let Some(password) = &config.password {
            options = options.password(password);
        }
        let mut opened = Vec::new();
        for _ in 0..CONNECTIONS {
            let connection = PgConnection::connect_with(&options).await;
            opened.push(connection.map_err(|error| failed("connect", error))?);
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
            .fetch_all(&mut used.connection)
            .await
            .map(|rows| rows.len() == 1);
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
