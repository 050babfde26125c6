//! The conformance suite on SQLite.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::process::ExitCode;
use std::sync::Arc;

use distlock_conformance::Subject;
use distlock_core::{BackendInfo, LockBackend, Result};
use distlock_sql::sqlite::{SqliteBackend, SqliteConfig};

struct Sqlite(tempfile::TempDir);

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

fn main() -> ExitCode {
    distlock_conformance::main(Sqlite(tempfile::tempdir().expect("the temporary folder is writable")))
}
