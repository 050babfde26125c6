//! Statements through a pooler that hands servers around.

use distlock_core::OwnerId;
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgQueryResult, PgRow, PgSeverity};
use sqlx::{AssertSqlSafe, Either, Executor as _, PgConnection, Row as _};

/// The parts of an answer.
pub(super) type Answer<'a> = BoxStream<'a, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>;

/// Sends statements behind a number that only their answer begins with, and refuses any other answer.
///
/// A client that leaves with several statements under way can leave answers behind: PgBouncer, seen with
/// 1.18, gives its server to the next one as soon as the first of them is through. From then on each statement
/// would be given the answer to the one before it, which may say that the lock is granted.
pub(super) async fn send<'a>(connection: &'a mut PgConnection, sql: &str) -> Result<Answer<'a>, sqlx::Error> {
    let seal = new_seal();
    let sealed = format!("SELECT CAST({seal} AS bigint); {sql}");
    let mut answer = connection.fetch_many(sqlx::raw_sql(AssertSqlSafe(sealed)));
    match answer.try_next().await {
        Ok(Some(Either::Right(row))) if row.try_get::<i64, _>(0).is_ok_and(|number| number == seal) => {}
        // As nothing comes after it, it does not matter whose it was.
        Err(sqlx::Error::Database(error)) if ends_the_session(&*error) => {
            return Err(sqlx::Error::Database(error));
        }
        Ok(_) | Err(sqlx::Error::Database(_)) => return Err(sqlx::Error::Protocol(MIXED_UP.to_owned())),
        Err(error) => return Err(error),
    }
    // The number's own end. Whatever else comes is the statements', errors too.
    answer.try_next().await?;
    Ok(answer)
}

fn ends_the_session(error: &dyn DatabaseError) -> bool {
    let error = error.try_downcast_ref::<PgDatabaseError>();
    error.is_some_and(|error| matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic))
}

const MIXED_UP: &str = "a connection pooler gave the answer to another client's statement, as PgBouncer 1.18 may when that client leaves early; take a newer one";

fn new_seal() -> i64 {
    let random = *OwnerId::random().as_bytes();
    // Without what is the same in all of them.
    i64::from(u32::from_be_bytes([random[0], random[1], random[2], random[3]]))
}
