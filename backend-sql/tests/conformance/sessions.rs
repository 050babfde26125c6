//! Locks of sessions, where the environment says.

use std::sync::Arc;

use distlock_conformance::{FaultAbilities, Faults, Subject};
use distlock_core::{BackendInfo, LockBackend, LockKey, Result, StoreUrl};

const CONNECTIONS: u32 = 40;

/// Lets many locks be held at once; each takes a connection.
fn with_connections(variable: &str) -> String {
    let url = std::env::var(variable).unwrap_or_default();
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}connections={CONNECTIONS}")
}

fn with_few(mut info: BackendInfo) -> BackendInfo {
    info.guarantees.held_most = Some(CONNECTIONS);
    info
}

#[cfg(feature = "postgres")]
pub(crate) struct Advisory;

#[cfg(feature = "postgres")]
#[async_trait::async_trait]
impl Subject for Advisory {
    fn info(&self) -> BackendInfo {
        with_few(distlock_sql::postgres::advisory::describe())
    }
    fn url(&self) -> String {
        with_connections(super::postgres::VARIABLE)
    }
    fn available(&self) -> std::result::Result<(), String> {
        super::named_by(super::postgres::VARIABLE, "postgres")
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(distlock_sql::postgres::advisory::from_url(&mut StoreUrl::parse(url)?).await?))
    }
}

#[cfg(feature = "postgres")]
#[async_trait::async_trait]
impl Faults for Advisory {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE.expire_now()
    }

    async fn expire_now(&self, key: &LockKey) {
        use sqlx::Connection;
        // The suite may have put something in front of the key.
        let end = "SELECT pg_terminate_backend(l.pid, 10000) FROM distlock_locks_sessions t
             JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted
               AND (CAST(l.classid AS bigint) << 32) | CAST(l.objid AS bigint) = t.slot
             WHERE substr(t.lock_key, octet_length(t.lock_key) - octet_length($1) + 1) = $1";
        let url = std::env::var(super::postgres::VARIABLE).unwrap();
        let mut raw = sqlx::PgConnection::connect(&url).await.unwrap();
        sqlx::query(end).bind(key.as_bytes()).execute(&mut raw).await.unwrap();
    }
}

#[cfg(feature = "mysql")]
pub(crate) struct Named;

#[cfg(feature = "mysql")]
#[async_trait::async_trait]
impl Subject for Named {
    fn info(&self) -> BackendInfo {
        with_few(distlock_sql::mysql::named::describe())
    }
    fn url(&self) -> String {
        with_connections(super::mysql::VARIABLE)
    }
    fn available(&self) -> std::result::Result<(), String> {
        super::named_by(super::mysql::VARIABLE, "mysql")
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(distlock_sql::mysql::named::from_url(&mut StoreUrl::parse(url)?).await?))
    }
}

#[cfg(feature = "mysql")]
#[async_trait::async_trait]
impl Faults for Named {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE.expire_now()
    }

    async fn expire_now(&self, key: &LockKey) {
        use sqlx::Connection;
        let url = std::env::var(super::mysql::VARIABLE).unwrap();
        let mut raw = sqlx::MySqlConnection::connect(&url).await.unwrap();
        let ended = holders(&mut raw, key).await;
        for id in &ended {
            // One that has ended by itself is fine, too.
            let kill = sqlx::AssertSqlSafe(format!("KILL {id}"));
            drop(sqlx::raw_sql(kill).execute(&mut raw).await);
        }
        // The server answers before the session has ended.
        for _ in 0..2000 {
            if holders(&mut raw, key).await.iter().all(|id| !ended.contains(id)) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("{ended:?} were told to end, and have not in 10 s");
    }
}

/// The sessions that hold a lock.
#[cfg(feature = "mysql")]
async fn holders(raw: &mut sqlx::MySqlConnection, key: &LockKey) -> Vec<i64> {
    // The suite may have put something in front of the key.
    let find =
        "SELECT CAST(IS_USED_LOCK(CONCAT('dl', LEFT(SHA2(CONCAT(CAST(LOWER(DATABASE()) AS BINARY), 0x00,
           'distlock_locks', 0x00, lock_key), 256), 60))) AS SIGNED)
         FROM distlock_locks_sessions WHERE RIGHT(lock_key, LENGTH(?)) = ?";
    let query = sqlx::query_scalar::<_, Option<i64>>(find).bind(key.as_bytes()).bind(key.as_bytes());
    query.fetch_all(raw).await.unwrap().into_iter().flatten().collect()
}
