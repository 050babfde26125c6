//! MySQL or MariaDB, where the environment says.

use std::sync::Arc;

use distlock_conformance::{FaultAbilities, Faults, Subject};
use distlock_core::{BackendInfo, LockBackend, LockKey, Result, StoreUrl};
use distlock_sql::mysql;
use sqlx::{Connection, MySqlConnection};

/// Where its URL stands.
pub(crate) const VARIABLE: &str = "LOCK_TEST_MYSQL_URL";

pub(crate) struct MySql;

#[async_trait::async_trait]
impl Subject for MySql {
    fn info(&self) -> BackendInfo {
        mysql::describe()
    }
    fn url(&self) -> String {
        std::env::var(VARIABLE).unwrap_or_default()
    }
    fn available(&self) -> std::result::Result<(), String> {
        super::named_by(VARIABLE, "mysql")
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(mysql::from_url(&mut StoreUrl::parse(url)?).await?))
    }
}

#[async_trait::async_trait]
impl Faults for MySql {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE.expire_now().prune()
    }

    async fn expire_now(&self, key: &LockKey) {
        // The suite may have put something in front of the key.
        let expire = "UPDATE distlock_locks SET expires_at = 1 WHERE expires_at IS NOT NULL \
                      AND RIGHT(lock_key, LENGTH(?)) = ?";
        let mut raw = MySqlConnection::connect(&self.url()).await.unwrap();
        sqlx::query(expire).bind(key.as_bytes()).bind(key.as_bytes()).execute(&mut raw).await.unwrap();
    }

    async fn prune(&self) {
        let mut raw = MySqlConnection::connect(&self.url()).await.unwrap();
        sqlx::query("DELETE FROM distlock_locks WHERE owner IS NULL").execute(&mut raw).await.unwrap();
    }
}
