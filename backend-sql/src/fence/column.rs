//! A column of tokens in a user's own table.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use distlock_core::{Effect, Error, ErrorKind, FencingToken, LockKey, Operation, Result, stale_token};
use sqlx::Database;

use super::dialect::FenceDialect;
use super::names;

/// A gate in the row that it protects: a column of your own table with the token of the last writer,
/// `bigint` and best `NULL` or 0 at first.
///
/// [`TokenColumn::admit_in`] is for transactions: after it, the row is the caller's until the transaction ends.
/// A write that is a single statement needs no transaction: let it set the column and ask for it, and ask
/// [`TokenColumn::refusal`] why if it found no row.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn doc(pool: sqlx::PgPool, guard: distlock_core::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
/// use distlock_sql::postgres::TokenColumn;
/// let accounts = TokenColumn::<sqlx::Postgres>::new("accounts", "id", "lock_token")?;
///
/// // Several statements:
/// let mut transaction = pool.begin().await?;
/// accounts.admit_in(&mut transaction, &7, guard.key(), guard.token()).await?;
/// sqlx::query("UPDATE accounts SET balance = 100 WHERE id = 7").execute(&mut *transaction).await?;
/// transaction.commit().await?;
///
/// // One statement:
/// let update = "UPDATE accounts SET balance = 100, lock_token = $1
///     WHERE id = 7 AND (lock_token IS NULL OR lock_token <= $1)";
/// let mut connection = pool.acquire().await?;
/// let done = sqlx::query(update).bind(guard.token().get_i64()).execute(&mut *connection).await?;
/// if done.rows_affected() == 0 {
///     return Err(accounts.refusal(&mut connection, &7, guard.key(), guard.token()).await.into());
/// }
/// # Ok(()) }
/// ```
pub struct TokenColumn<D: Database> {
    advance: Arc<str>,
    highest: Arc<str>,
    database: PhantomData<fn() -> D>,
}

#[expect(private_bounds, reason = "there is a gate for the databases of this crate, and for no others")]
impl<D: FenceDialect> TokenColumn<D> {
    /// The column `token` of `table` (or `schema.table`), whose rows are told apart by the column `id`.
    /// Names are written as the database has them, without quotes. Does no I/O.
    ///
    /// # Errors
    /// `InvalidOptions` if one can't be a name.
    pub fn new(table: &str, id: &str, token: &str) -> Result<Self> {
        let quote = D::TEXTS.quote;
        let (table, id, token) =
            (names::table(table, quote)?, names::quoted(id, quote)?, names::quoted(token, quote)?);
        let with_names = |text: &str| {
            // The table last, since a name may hold braces.
            let text = text.replace("{token}", "\u{1}").replace("{id}", "\u{2}").replace("{table}", &table);
            text.replace('\u{1}', &token).replace('\u{2}', &id).into()
        };
        Ok(Self {
            advance: with_names(D::TEXTS.advance),
            highest: with_names(D::TEXTS.highest),
            database: PhantomData,
        })
    }

    /// Admits the token for the row `id`, and writes it there, in the caller's transaction, or outside of
    /// one in the session of `connection`.
    ///
    /// # Errors
    /// - `Lost` if the row has a higher token: whoever holds this one lost its lock. Nothing was written.
    /// - `Misconfigured` if there is no such row, column or table.
    /// - The database's, such as `Unavailable`; `is_retryable` ones stand for a transaction that may be
    ///   begun anew.
    ///
    /// # Cancel safety
    /// As with every statement of the driver: after dropping it midway the connection should be closed.
    pub async fn admit_in(
        &self,
        connection: &mut D::Connection,
        id: &(impl for<'q> sqlx::Encode<'q, D> + sqlx::Type<D> + Sync),
        key: &LockKey,
        token: FencingToken,
    ) -> Result<()> {
        match D::advance(connection, Arc::clone(&self.advance), id, token.get_i64()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.refusal(connection, id, key, token).await),
            Err(error) => Err(named::<D>(key, explain::<D>(error))),
        }
    }

    /// Why a conditional update with this token found no row: the error that [`TokenColumn::admit_in`] fails with.
    ///
    /// # Cancel safety
    /// As with every statement of the driver: after dropping it midway the connection should be closed.
    pub async fn refusal(
        &self,
        connection: &mut D::Connection,
        id: &(impl for<'q> sqlx::Encode<'q, D> + sqlx::Type<D> + Sync),
        key: &LockKey,
        token: FencingToken,
    ) -> Error {
        let error = match D::highest(connection, Arc::clone(&self.highest), id).await {
            Ok(found) => judge(key, token, found),
            Err(error) => explain::<D>(error),
        };
        named::<D>(key, error)
    }
}

/// What the row says about a token that was not admitted.
fn judge(key: &LockKey, token: FencingToken, found: Option<Option<i64>>) -> Error {
    let highest = found.map(|highest| highest.and_then(|highest| FencingToken::try_from(highest).ok()));
    match highest {
        None => {
            let message = "there is no row with this id; insert it before it is written under a lock";
            Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None)
        }
        Some(Some(highest)) if highest > token => stale_token(key, token, highest),
        Some(_) => {
            // The row changed between the two statements, as can happen outside of a transaction.
            let message = "others changed the row at the same time; do it again";
            Error::new(ErrorKind::Unavailable, message).with_effect(Effect::None)
        }
    }
}

fn explain<D: FenceDialect>(error: sqlx::Error) -> Error {
    if !D::is_missing(&error) {
        return D::trouble(error);
    }
    let message = "there is no such table or column; see the cause, and how `TokenColumn::new` was called";
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None).caused_by(error)
}

fn named<D: FenceDialect>(key: &LockKey, error: Error) -> Error {
    error.on_backend(D::BACKEND).in_operation(Operation::Fence).for_key(key)
}

impl<D: Database> Clone for TokenColumn<D> {
    fn clone(&self) -> Self {
        let (advance, highest) = (Arc::clone(&self.advance), Arc::clone(&self.highest));
        Self { advance, highest, database: PhantomData }
    }
}

impl<D: Database> fmt::Debug for TokenColumn<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenColumn").field("statement", &self.advance).finish_non_exhaustive()
    }
}
