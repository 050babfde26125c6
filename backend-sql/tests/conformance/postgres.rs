//! PostgreSQL, where the environment says.

use std::sync::Arc;

use distlock_conformance::{FaultAbilities, Faults, Subject};
use distlock_core::{BackendInfo, LockBackend, LockKey, Result, StoreUrl};
use distlock_sql::postgres;
use sqlx::{Connection, PgConnection};

/// Where its URL stands.
pub(crate) const VARIABLE: &str = "LOCK_TEST_POSTGRES_URL";

/// Where the URL of one behind a pooler in transaction mode stands.
pub(crate) const POOLED: &str = "LOCK_TEST_PGBOUNCER_URL";
/// And that of the server itself.
const DIRECT: &str = "LOCK_TEST_PGBOUNCER_DIRECT_URL";

pub(crate) struct Postgres {
    pub(crate) pooled: bool,
}

impl Postgres {
    /// A connection to look behind the scenes.
    async fn raw(&self) -> PgConnection {
        let variable = if self.pooled { DIRECT } else { VARIABLE };
        PgConnection::connect(&std::env::var(variable).unwrap()).await.unwrap()
    }
}

#[async_trait::async_trait]
impl Subject for Postgres {
    fn info(&self) -> BackendInfo {
        if self.pooled { postgres::describe_pooled() } else { postgres::describe() }
    }
    fn url(&self) -> String {
        match self.pooled {
            true => format!("{}?pooled=on", std::env::var(POOLED).unwrap_or_default()),
            false => std::env::var(VARIABLE).unwrap_or_default(),
        }
    }
    fn available(&self) -> std::result::Result<(), String> {
        match self.pooled {
            true => super::named_by(POOLED, "pgbouncer"),
            false => super::named_by(VARIABLE, "postgres"),
        }
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(postgres::from_url(&mut StoreUrl::parse(url)?).await?))
    }
}

#[async_trait::async_trait]
impl Faults for Postgres {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE.expire_now().prune()
    }

    async fn expire_now(&self, key: &LockKey) {
        // The suite may have put something in front of the key.
        let expire = "UPDATE distlock_locks SET expires_at = 1 WHERE expires_at IS NOT NULL \
                      AND substr(lock_key, octet_length(lock_key) - octet_length($1) + 1) = $1";
        let mut raw = self.raw().await;
        sqlx::query(expire).bind(key.as_bytes()).execute(&mut raw).await.unwrap();
    }

    async fn prune(&self) {
        let mut raw = self.raw().await;
        sqlx::query("DELETE FROM distlock_locks WHERE owner IS NULL").execute(&mut raw).await.unwrap();
    }
}
