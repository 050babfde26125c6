//! MySQL's way of sending statements and reading their answers.

use std::sync::Arc;

use futures_util::TryStreamExt;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlRow};
use sqlx::{AssertSqlSafe, Either, Executor, MySql, MySqlConnection, Row as _, TypeInfo as _, ValueRef as _};

use super::{connecting, errors, statements};
use crate::server::{
    Cell, Dialect, Fitness, Given, Listener, Meaning, Opener, Row, ServerConfig, Standing, Statement,
    Statements, Tables, Trouble, Value, exhausted,
};

impl Dialect for MySql {
    const BACKEND: &'static str = "mysql";
    const PORT: u16 = 3306;
    const QUOTE: char = '`';
    const PUSHES: bool = false;

    fn options(config: &ServerConfig, host: &str, port: u16) -> distlock_core::Result<MySqlConnectOptions> {
        connecting::options(config, host, port)
    }

    async fn set_up(connection: &mut MySqlConnection, config: &ServerConfig) -> Result<Fitness, sqlx::Error> {
        connecting::set_up(connection, config).await
    }

    async fn standing(connection: &mut MySqlConnection) -> Result<Standing, sqlx::Error> {
        // Only MariaDB says whether there is a transaction.
        let standing = "SELECT CAST(@@autocommit /*M! + 2 * @@in_transaction */ AS signed)";
        let standing: i64 = sqlx::raw_sql(standing).fetch_one(connection).await?.try_get(0)?;
        Ok(match standing {
            1 => Standing::Clear,
            3 => Standing::InTransaction,
            _ => Standing::WithoutAutocommit,
        })
    }

    fn statements(tables: &Tables) -> Statements {
        statements::on(tables)
    }

    async fn run(connection: &mut MySqlConnection, statement: &Statement) -> Result<Given, sqlx::Error> {
        let mut query = sqlx::query::<Self>(AssertSqlSafe(Arc::clone(&statement.sql)));
        for value in statement.values() {
            query = match value {
                Value::Int(value) => query.bind(value),
                Value::Key(key) => query.bind(key.as_bytes()),
                Value::Owner(owner) => query.bind(&owner.as_bytes()[..]),
                Value::Bytes(bytes) => query.bind(&bytes[..]),
                Value::Text(text) => query.bind(&text[..]),
            };
        }
        let mut answer = connection.fetch_many(query);
        let mut given = Given::default();
        // To the end, so that the connection is ready for what comes next.
        while let Some(part) = answer.try_next().await? {
            match part {
                Either::Left(done) => {
                    // The rows that a statement found, whether it changed them or not.
                    given.matched += done.rows_affected();
                    given.number = i64::try_from(done.last_insert_id()).unwrap_or(0);
                }
                Either::Right(row) => given.rows.push(read(&row)?),
            }
        }
        Ok(given)
    }

    async fn run_script(connection: &mut MySqlConnection, script: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(connection).await.map(|_| ())
    }

    async fn listen(_: &Opener<Self>, _: &str) -> Result<Box<dyn Listener>, Trouble> {
        // Nobody asks, since `PUSHES` says that there is nothing to hear.
        Err(exhausted())
    }

    fn meaning(error: &dyn DatabaseError) -> Meaning {
        errors::meaning(error)
    }
}

pub(super) fn read(row: &MySqlRow) -> Result<Row, sqlx::Error> {
    let mut cells = Vec::with_capacity(row.len());
    for at in 0..row.len() {
        let value = row.try_get_raw(at)?;
        let kind = value.type_info();
        cells.push(match kind.name() {
            _ if value.is_null() => Cell::Null,
            "BIGINT UNSIGNED" | "INT UNSIGNED" | "TINYINT UNSIGNED" => {
                Cell::Int(i64::try_from(row.try_get::<u64, _>(at)?).unwrap_or(i64::MAX))
            }
            "BIGINT" | "INT" | "SMALLINT" | "TINYINT" | "BOOLEAN" => Cell::Int(row.try_get(at)?),
            "VARCHAR" | "CHAR" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" => Cell::Text(row.try_get(at)?),
            _ => Cell::Bytes(row.try_get(at)?),
        });
    }
    Ok(Row(cells))
}
