//! Gates in SQLite.

use std::path::Path;
use std::sync::Arc;

use distlock_core::Error;
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection, query_scalar};

use super::dialect::{FenceDialect, Id, Texts};
use crate::sqlite::error::classify;

impl FenceDialect for Sqlite {
    const BACKEND: &'static str = "sqlite";
    const TEXTS: Texts = Texts {
        quote: '"',
        create: "CREATE TABLE IF NOT EXISTS {fence} (
  lock_key BLOB PRIMARY KEY NOT NULL CHECK (length(lock_key) BETWEEN 1 AND 512),
  token INTEGER NOT NULL CHECK (token > 0)
) STRICT, WITHOUT ROWID",
        admit: "INSERT INTO {fence} AS f (lock_key, token) VALUES (?1, ?2)
 ON CONFLICT (lock_key) DO UPDATE SET token = max(f.token, excluded.token) RETURNING token",
        advance: "UPDATE {table} SET {token} = ?1 WHERE {id} = ?2 AND ({token} IS NULL OR {token} <= ?3)",
        highest: "SELECT CAST({token} AS INTEGER) FROM {table} WHERE {id} = ?1",
    };

    async fn create(connection: &mut SqliteConnection, sql: Arc<str>) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
    }

    async fn admit(
        connection: &mut SqliteConnection,
        sql: Arc<str>,
        key: &[u8],
        token: i64,
    ) -> Result<i64, sqlx::Error> {
        query_scalar(AssertSqlSafe(sql)).bind(key).bind(token).fetch_one(connection).await
    }

    async fn advance(
        connection: &mut SqliteConnection,
        sql: Arc<str>,
        id: &impl Id<Self>,
        token: i64,
    ) -> Result<bool, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(sql)).bind(token).bind(id).bind(token);
        Ok(query.execute(connection).await?.rows_affected() > 0)
    }

    async fn highest(
        connection: &mut SqliteConnection,
        sql: Arc<str>,
        id: &impl Id<Self>,
    ) -> Result<Option<Option<i64>>, sqlx::Error> {
        query_scalar(AssertSqlSafe(sql)).bind(id).fetch_optional(connection).await
    }

    fn trouble(error: sqlx::Error) -> Error {
        classify(error, Path::new("the database"))
    }

    fn is_missing(error: &sqlx::Error) -> bool {
        let sqlx::Error::Database(error) = error else { return false };
        error.message().starts_with("no such table: ") || error.message().starts_with("no such column: ")
    }
}
