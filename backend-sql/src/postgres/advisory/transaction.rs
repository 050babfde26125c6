//! Locks that last as long as the caller's transaction.

use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, LockKey, Operation, Result};
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _, Transaction};

use super::number::{name, number};
use crate::hex::push_hex;
use crate::server::{Dialect, Doing, classify};

/// The space that keys are in. Session locks of the default table are in the same one.
const SPACE: &str = "distlock_locks";

/// Longest wait that PostgreSQL's setting can express.
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// Locks `key` until the caller's transaction ends, waiting for it at most for `limit`, 1 ms to 24 days.
///
/// If the data that the lock protects is in the same database, this is the strongest exclusion there is:
/// the writes and the lock are one transaction, so nobody writes without it, whatever happens to
/// programs, connections and clocks. There is no ttl, no renewal and no token, since nothing can be lost
/// before the transaction is. The lock is freed by commit and rollback, in that step; there is no unlock.
///
/// - It works through a pooler, in transaction mode too.
/// - Lock first, and read afterwards. That is for the isolation level READ COMMITTED, the default. Under
///   REPEATABLE READ and SERIALIZABLE a transaction sees the data as of the moment before it waited, and
///   the server refuses its writes to rows that were changed since; then begin anew.
/// - It takes one round trip, and leaves the transaction's time-outs as they are.
/// - It excludes other transactions that lock the same key by this function, and holders of the key by the
///   session locks of the same database, but not holders of lease rows.
/// - PostgreSQL numbers these locks with 64 bits. Two keys whose hashes are the same exclude each other,
///   which costs time and never safety; among a million keys the chance is one in 37 million.
/// - Locked twice in one transaction, the second costs nothing. Locking several keys in different orders
///   deadlocks; the server notices, and ends one of the transactions.
///
/// ```no_run
/// # async fn doc(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use distlock_core::LockKey;
/// use distlock_sql::postgres::lock_in_transaction;
/// use std::time::Duration;
///
/// let mut transaction = pool.begin().await?;
/// lock_in_transaction(&mut transaction, &LockKey::new("account/7")?, Duration::from_secs(2)).await?;
/// sqlx::query("UPDATE accounts SET balance = balance + 10 WHERE id = 7").execute(&mut *transaction).await?;
/// transaction.commit().await?; // and the lock is free
/// # Ok(()) }
/// ```
///
/// # Errors
/// - `InvalidOptions`: `limit` is out of range. Nothing was sent.
/// - `WaitTimeout`: somebody else had the lock for that long. The transaction goes on as it was.
/// - `Unavailable`: as with every statement, or a deadlock; roll back, and begin anew.
///
/// # Cancel safety
/// As with every statement of the driver: dropped midway, the transaction should be rolled back and its
/// connection closed; the server goes on waiting for up to `limit`.
pub async fn lock_in_transaction(
    transaction: &mut Transaction<'_, Postgres>,
    key: &LockKey,
    limit: Duration,
) -> Result<()> {
    let named = |error| named(error, key);
    let script = waiting(millis(limit).map_err(named)?, key);
    let Err(error) = run(transaction, &script).await else { return Ok(()) };
    let has_waited = is_code(&error, "55P03");
    // Waiting in vain ends the savepoint, and not the caller's transaction.
    match run(transaction, "ROLLBACK TO SAVEPOINT distlock; RELEASE SAVEPOINT distlock").await {
        Ok(()) if has_waited => Err(named(busy(error))),
        _ => Err(named(classify::<Postgres>(error, Doing::Running).error)),
    }
}

/// Locks `key` until the caller's transaction ends if nobody else has it, and says whether.
///
/// All else is as with [`lock_in_transaction`].
///
/// # Errors
/// `Unavailable` and the like, as with every statement.
///
/// # Cancel safety
/// As with every statement of the driver: dropped midway, the transaction should be rolled back and its
/// connection closed.
pub async fn try_lock_in_transaction(
    transaction: &mut Transaction<'_, Postgres>,
    key: &LockKey,
) -> Result<bool> {
    let script = format!("SELECT pg_try_advisory_xact_lock({})", number_of(key));
    let asked = sqlx::raw_sql(AssertSqlSafe(script)).fetch_one(&mut **transaction).await;
    let asked = asked.and_then(|row| row.try_get(0));
    asked.map_err(|error| named(classify::<Postgres>(error, Doing::Running).error, key))
}

/// Waits under time-outs of its own.
fn waiting(millis: u128, key: &LockKey) -> String {
    let (keep, restore): (Vec<_>, Vec<_>) = ["lock_timeout", "statement_timeout"]
        .map(|name| {
            let set =
                |to: &str, from: &str| format!("SELECT set_config('{to}', current_setting('{from}'), true);");
            let kept = format!("distlock.{name}");
            (set(&kept, name), set(name, &kept))
        })
        .into_iter()
        .unzip();
    format!(
        "SAVEPOINT distlock; {} SET LOCAL lock_timeout = {millis}; SET LOCAL statement_timeout = 0;
         SELECT pg_advisory_xact_lock({}); {} RELEASE SAVEPOINT distlock",
        keep.concat(),
        number_of(key),
        restore.concat(),
    )
}

fn number_of(key: &LockKey) -> String {
    let mut hex = String::new();
    push_hex(&mut hex, &name(SPACE, key));
    number(&format!("decode('{hex}', 'hex')"))
}

/// Without a prepared statement, which a pooler in transaction mode would lose.
async fn run(connection: &mut PgConnection, script: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(connection).await.map(drop)
}

fn millis(limit: Duration) -> Result<u128> {
    if limit >= Duration::from_millis(1) && limit <= LONGEST {
        return Ok(limit.as_millis());
    }
    let message = format!("a wait of {limit:?} is out of range; it takes 1 ms to {LONGEST:?}");
    Err(Error::new(ErrorKind::InvalidOptions, message).with_effect(Effect::None))
}

fn is_code(error: &sqlx::Error, code: &str) -> bool {
    matches!(error, sqlx::Error::Database(error) if error.code().as_deref() == Some(code))
}

fn busy(error: sqlx::Error) -> Error {
    let message = "another transaction or session has the lock; try again later, or wait for longer";
    Error::new(ErrorKind::WaitTimeout, message).with_effect(Effect::None).caused_by(error)
}

fn named(error: Error, key: &LockKey) -> Error {
    error.on_backend(Postgres::BACKEND).in_operation(Operation::Lock).for_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_the_server_cannot_express_are_refused() {
        for limit in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
            assert_eq!(millis(limit).unwrap_err().kind(), ErrorKind::InvalidOptions, "{limit:?}");
        }
        assert_eq!(millis(Duration::from_millis(1)).unwrap(), 1);
        assert_eq!(millis(LONGEST).unwrap(), i32::MAX as u128);
    }
}
