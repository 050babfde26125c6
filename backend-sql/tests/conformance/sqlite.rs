//! SQLite, in a file of its own.

use std::sync::Arc;

use distlock_conformance::Subject;
use distlock_core::{BackendInfo, LockBackend, Result};
use distlock_sql::sqlite::{SqliteBackend, SqliteConfig};

pub(crate) struct Sqlite(tempfile::TempDir);

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("the temporary folder is writable"))
    }
}

#[async_trait::async_trait]
impl Subject for Sqlite {
    fn info(&self) -> BackendInfo {
        SqliteBackend::describe()
    }
    fn url(&self) -> String {
        self.0.path().join("locks.db").display().to_string()
    }
    async fn connect(&self, file: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(SqliteBackend::connect(SqliteConfig::new(file)).await?))
    }
}
