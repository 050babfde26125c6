//! PostgreSQL's way of sending statements and reading their answers.

use std::future;
use std::sync::Arc;

use futures_util::TryStreamExt;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{AssertSqlSafe, Either, Executor, PgConnection, Postgres, Row as _, TypeInfo as _, ValueRef as _};

use super::sealed::Answer;
use super::{connecting, errors, listening, sealed, statements};
use crate::server::{
    Cell, Dialect, Fitness, Given, Listener, Meaning, Opener, Row, ServerConfig, Standing, Statement,
    Statements, Tables, Trouble, Value,
};

impl Dialect for Postgres {
    const BACKEND: &'static str = "postgres";
    const PORT: u16 = 5432;
    const QUOTE: char = '"';
    const PUSHES: bool = true;

    fn options(config: &ServerConfig, host: &str, port: u16) -> distlock_core::Result<PgConnectOptions> {
        connecting::options(config, host, port)
    }

    async fn set_up(connection: &mut PgConnection, config: &ServerConfig) -> Result<Fitness, sqlx::Error> {
        connecting::set_up(connection, config).await
    }

    async fn standing(connection: &mut PgConnection) -> Result<Standing, sqlx::Error> {
        let is_clear = "SELECT now() = statement_timestamp()";
        let is_clear: bool = sqlx::raw_sql(is_clear).fetch_one(connection).await?.try_get(0)?;
        Ok(if is_clear { Standing::Clear } else { Standing::InTransaction })
    }

    fn statements(tables: &Tables) -> Statements {
        statements::on(tables)
    }

    async fn run(connection: &mut PgConnection, statement: &Statement) -> Result<Given, sqlx::Error> {
        if statement.is_inline {
            return given(sealed::send(connection, &statement.sql).await?).await;
        }
        if statement.values().next().is_none() {
            return given(connection.fetch_many(sqlx::raw_sql(AssertSqlSafe(Arc::clone(&statement.sql)))))
                .await;
        }
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
        given(connection.fetch_many(query)).await
    }

    async fn run_script(connection: &mut PgConnection, script: &str) -> Result<(), sqlx::Error> {
        // Its rows say nothing, and may be of kinds that are not read.
        sealed::send(connection, script).await?.try_for_each(|_| future::ready(Ok(()))).await
    }

    async fn listen(opener: &Opener<Self>, channel: &str) -> Result<Box<dyn Listener>, Trouble> {
        listening::listen(opener.options(), opener.limit(), channel).await
    }

    fn meaning(error: &dyn DatabaseError) -> Meaning {
        errors::meaning(error)
    }
}

/// Reads an answer to the end, so that the connection is ready for what comes next.
pub(super) async fn given(mut answer: Answer<'_>) -> Result<Given, sqlx::Error> {
    let mut given = Given::default();
    while let Some(part) = answer.try_next().await? {
        match part {
            Either::Left(done) => given.matched += done.rows_affected(),
            Either::Right(row) => given.rows.push(read(&row)?),
        }
    }
    if let Some(Cell::Int(number)) = given.rows.first().and_then(|row| row.0.first()) {
        given.number = *number;
    }
    Ok(given)
}

fn read(row: &PgRow) -> Result<Row, sqlx::Error> {
    let mut cells = Vec::with_capacity(row.len());
    for at in 0..row.len() {
        let value = row.try_get_raw(at)?;
        cells.push(match value.type_info().name() {
            _ if value.is_null() => Cell::Null,
            "INT8" => Cell::Int(row.try_get(at)?),
            "INT4" => Cell::Int(row.try_get::<i32, _>(at)?.into()),
            "BOOL" => Cell::Int(row.try_get::<bool, _>(at)?.into()),
            "BYTEA" => Cell::Bytes(row.try_get(at)?),
            _ => Cell::Text(row.try_get(at)?),
        });
    }
    Ok(Row(cells))
}
