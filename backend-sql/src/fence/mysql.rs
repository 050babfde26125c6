//! Gates in MySQL and MariaDB.

use std::sync::Arc;

use distlock_core::Error;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, query_scalar};

use super::dialect::{FenceDialect, Id, Texts};
use crate::server::{Dialect, Doing, classify};

impl FenceDialect for MySql {
    const BACKEND: &'static str = <Self as Dialect>::BACKEND;
    const TEXTS: Texts = Texts {
        quote: '`',
        create: "CREATE TABLE IF NOT EXISTS {fence} (
  lock_key VARBINARY(512) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL CHECK (token > 0)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
        // The highest token leaves by LAST_INSERT_ID, which the server's answer carries anyway.
        admit: "INSERT INTO {fence} (lock_key, token) VALUES (?, LAST_INSERT_ID(?))
 ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))",
        advance: "UPDATE {table} SET {token} = ? WHERE {id} = ? AND ({token} IS NULL OR {token} <= ?)",
        highest: "SELECT CAST({token} AS SIGNED) FROM {table} WHERE {id} = ?",
    };

    async fn create(connection: &mut MySqlConnection, sql: Arc<str>) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
    }

    async fn admit(
        connection: &mut MySqlConnection,
        sql: Arc<str>,
        key: &[u8],
        token: i64,
    ) -> Result<i64, sqlx::Error> {
        let query = sqlx::query(AssertSqlSafe(sql)).bind(key).bind(token).bind(token);
        let highest = query.execute(connection).await?.last_insert_id();
        Ok(i64::try_from(highest).unwrap_or(i64::MAX))
    }

    async fn advance(
        connection: &mut MySqlConnection,
        sql: Arc<str>,
        id: &impl Id<Self>,
        token: i64,
    ) -> Result<bool, sqlx::Error> {
        // The driver has the server count the rows that were found, changed or not.
        let query = sqlx::query(AssertSqlSafe(sql)).bind(token).bind(id).bind(token);
        Ok(query.execute(connection).await?.rows_affected() > 0)
    }

    async fn highest(
        connection: &mut MySqlConnection,
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
        let number = error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number);
        matches!(number, Some(1146 | 1054))
    }
}
