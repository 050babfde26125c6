//! Gates in PostgreSQL.

use std::sync::Arc;

use distlock_core::Error;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, query_scalar};

use super::dialect::{FenceDialect, Id, Texts};
use crate::server::{Dialect, Doing, Then, classify};

impl FenceDialect for Postgres {
    const BACKEND: &'static str = <Self as Dialect>::BACKEND;
    const TEXTS: Texts = Texts {
        quote: '"',
        // One transaction; programs that begin at the same time do it one after the other.
        create: "SELECT pg_advisory_xact_lock(7236837542171246708);
CREATE TABLE IF NOT EXISTS {fence} (
  lock_key bytea PRIMARY KEY CHECK (octet_length(lock_key) BETWEEN 1 AND 512),
  token bigint NOT NULL CHECK (token > 0)
)",
        admit: "INSERT INTO {fence} AS f (lock_key, token) VALUES ($1, $2)
 ON CONFLICT (lock_key) DO UPDATE SET token = greatest(f.token, excluded.token) RETURNING token",
        advance: "UPDATE {table} SET {token} = $1 WHERE {id} = $2 AND ({token} IS NULL OR {token} <= $3)",
        highest: "SELECT CAST({token} AS bigint) FROM {table} WHERE {id} = $1",
    };

    async fn create(connection: &mut PgConnection, sql: Arc<str>) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
    }

    async fn admit(
        connection: &mut PgConnection,
        sql: Arc<str>,
        key: &[u8],
        token: i64,
    ) -> Result<i64, sqlx::Error> {
        query_scalar(AssertSqlSafe(sql)).bind(key).bind(token).fetch_one(connection).await
    }

    async fn advance(
        connection: &mut PgConnection,
        sql: Arc<str>,
        id: &impl Id<Self>,
        token: i64,
    ) -> Result<bool, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(sql)).bind(token).bind(id).bind(token);
        Ok(query.execute(connection).await?.rows_affected() > 0)
    }

    async fn highest(
        connection: &mut PgConnection,
        sql: Arc<str>,
        id: &impl Id<Self>,
    ) -> Result<Option<Option<i64>>, sqlx::Error> {
        query_scalar(AssertSqlSafe(sql)).bind(id).fetch_optional(connection).await
    }

    fn trouble(error: sqlx::Error) -> Error {
        classify::<Self>(error, Doing::Running).error
    }

    fn is_missing(error: &sqlx::Error) -> bool {
        let sqlx::Error::Database(error) = error else { return false };
        <Self as Dialect>::meaning(error.as_ref()).then == Then::Create
            || error.code().as_deref() == Some("42703")
    }
}
