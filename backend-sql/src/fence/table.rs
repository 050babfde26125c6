//! A table of tokens.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::{
    Effect, Error, ErrorKind, FenceGate, FencingToken, LockKey, Operation, Result, stale_token,
};
use sqlx::{Database, Pool};

use super::dialect::FenceDialect;
use super::names;
use crate::outlasting::Outlasting;

/// A gate before data in a database, PostgreSQL, MySQL, MariaDB or SQLite: a table that remembers the
/// highest token of each lock, one small row a lock, for ever.
///
/// It stands where the data is, which need not be where the locks are. One statement checks a token and
/// remembers it. In the transaction that writes the data ([`FenceTable::admit_in`]) the two are one atomic
/// step: until that transaction ends, others that want the same lock's data wait for its row, and if it is
/// rolled back, so is the token. [`admit`](FenceGate::admit) alone, in a transaction of its own, leaves a gap
/// between check and write.
///
/// If the data of a lock is one row, a column in it will do: [`TokenColumn`](super::TokenColumn).
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn doc(pool: sqlx::PgPool, guard: distlock_core::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
/// use distlock_sql::postgres::FenceTable;
/// let fence = FenceTable::new(pool.clone());
/// fence.create().await?;
///
/// let mut transaction = pool.begin().await?;
/// fence.admit_in(&mut transaction, guard.key(), guard.token()).await?;
/// sqlx::query("UPDATE accounts SET balance = 100 WHERE id = 7").execute(&mut *transaction).await?;
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
pub struct FenceTable<D: Database> {
    pool: Pool<D>,
    create: Arc<str>,
    admit: Arc<str>,
}

#[expect(private_bounds, reason = "there is a gate for the databases of this crate, and for no others")]
impl<D: FenceDialect> FenceTable<D> {
    /// The table's name, unless another is given.
    pub const NAME: &'static str = "distlock_fence";

    /// The table `distlock_fence` in the database of this pool. Does no I/O.
    #[must_use]
    pub fn new(pool: Pool<D>) -> Self {
        let quote = D::TEXTS.quote;
        Self::quoted(pool, &format!("{quote}{}{quote}", Self::NAME))
    }

    /// The table `name` or `schema.name` in the database of this pool. Does no I/O.
    ///
    /// # Errors
    /// `InvalidOptions` if it can't be a table's name.
    pub fn named(pool: Pool<D>, name: &str) -> Result<Self> {
        Ok(Self::quoted(pool, &names::table(name, D::TEXTS.quote)?))
    }

    fn quoted(pool: Pool<D>, name: &str) -> Self {
        let with_name = |text: &str| text.replace("{fence}", name).into();
        Self { pool, create: with_name(D::TEXTS.create), admit: with_name(D::TEXTS.admit) }
    }

    /// The statements that [`FenceTable::create`] runs, for those who would rather do it themselves.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.create
    }

    /// Creates the table unless it is there. Several programs may do so at once.
    ///
    /// # Errors
    /// The database's, such as `PermissionDenied` and `Unavailable`.
    ///
    /// # Cancel safety
    /// May be dropped at any point; the table may be created all the same.
    pub async fn create(&self) -> Result<()> {
        let sql = Arc::clone(&self.create);
        let created = Outlasting::new(with_connection(self.pool.clone(), async move |connection| {
            D::create(connection, sql).await
        }));
        created.await.map_err(Self::named_error)
    }

    /// Admits the token in the caller's transaction, or outside of one in the session of `connection`.
    ///
    /// Do it first in the transaction, and roll back if it fails. With MySQL and MariaDB it changes what
    /// `LAST_INSERT_ID()` says in the session.
    ///
    /// # Errors
    /// - `Lost` if a higher token was seen: whoever holds this one lost its lock.
    /// - `Misconfigured` if the table is missing.
    /// - The database's, such as `Unavailable`; `is_retryable` ones stand for a transaction that may be
    ///   begun anew.
    ///
    /// # Cancel safety
    /// As with every statement of the driver: after dropping it midway the connection should be closed.
    pub async fn admit_in(
        &self,
        connection: &mut D::Connection,
        key: &LockKey,
        token: FencingToken,
    ) -> Result<()> {
        let admitted = D::admit(connection, Arc::clone(&self.admit), key.as_bytes(), token.get_i64()).await;
        judge::<D>(key, token, admitted)
    }

    fn named_error(error: sqlx::Error) -> Error {
        D::trouble(error).on_backend(D::BACKEND).in_operation(Operation::Fence)
    }
}

#[async_trait]
impl<D: FenceDialect> FenceGate for FenceTable<D> {
    /// Runs in a transaction of its own, on a connection of the pool.
    ///
    /// # Cancel safety
    /// May be dropped at any point; the token may be admitted all the same.
    async fn admit(&self, key: &LockKey, token: FencingToken) -> Result<()> {
        let (sql, bytes) = (Arc::clone(&self.admit), key.as_bytes().to_vec());
        let admitted = Outlasting::new(with_connection(self.pool.clone(), async move |connection| {
            D::admit(connection, sql, &bytes, token.get_i64()).await
        }));
        judge::<D>(key, token, admitted.await)
    }
}

/// What the highest token of a key says about this one.
fn judge<D: FenceDialect>(
    key: &LockKey,
    token: FencingToken,
    highest: std::result::Result<i64, sqlx::Error>,
) -> Result<()> {
    let named = |error: Error| error.on_backend(D::BACKEND).in_operation(Operation::Fence).for_key(key);
    let highest = highest.map_err(|error| named(explain::<D>(error)))?;
    if highest == token.get_i64() {
        return Ok(());
    }
    Err(named(stale_token(key, token, FencingToken::try_from(highest)?)))
}

fn explain<D: FenceDialect>(error: sqlx::Error) -> Error {
    if !D::is_missing(&error) {
        return D::trouble(error);
    }
    let message = "the table of the gate is missing, or is not one; create it with `FenceTable::create`, or by the statement that `FenceTable::schema` shows";
    Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None).caused_by(error)
}

/// Does something with a connection of the pool, which is given back only if that went well.
async fn with_connection<D: Database, T>(
    pool: Pool<D>,
    run: impl AsyncFnOnce(&mut D::Connection) -> std::result::Result<T, sqlx::Error>,
) -> std::result::Result<T, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let done = run(&mut connection).await;
    if done.as_ref().is_err_and(|error| !matches!(error, sqlx::Error::Database(_))) {
        // Nobody knows what is still under way on it.
        drop(connection.detach());
    }
    done
}

impl<D: Database> Clone for FenceTable<D> {
    fn clone(&self) -> Self {
        let (create, admit) = (Arc::clone(&self.create), Arc::clone(&self.admit));
        Self { pool: self.pool.clone(), create, admit }
    }
}

impl<D: Database> fmt::Debug for FenceTable<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceTable").field("schema", &self.create).finish_non_exhaustive()
    }
}
