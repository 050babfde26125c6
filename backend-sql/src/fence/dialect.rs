//! What the kinds of databases do differently.

use std::sync::Arc;

use distlock_core::Error;
use sqlx::{Database, Encode, Type};

/// The statements of a gate. `{fence}` is its table; `{table}`, `{id}` and `{token}` are a user's.
pub(crate) struct Texts {
    /// What stands around names.
    pub(crate) quote: char,
    /// Creates the gate's table unless it is there.
    pub(crate) create: &'static str,
    /// Remembers a token unless a higher one is there, and gives the highest. Key, token.
    pub(crate) admit: &'static str,
    /// Writes a token into a user's row unless a higher one is there. Token, id, token.
    pub(crate) advance: &'static str,
    /// The token in a user's row. Id.
    pub(crate) highest: &'static str,
}

/// A value that tells a row of a user's table from the others.
pub(crate) trait Id<D: Database>: for<'q> Encode<'q, D> + Type<D> + Sync {}

impl<D: Database, T: for<'q> Encode<'q, D> + Type<D> + Sync> Id<D> for T {}

/// A kind of database that a gate can stand in.
pub(crate) trait FenceDialect: Database {
    /// The kind's name, for errors.
    const BACKEND: &'static str;
    const TEXTS: Texts;

    /// Runs [`Texts::create`].
    fn create(
        connection: &mut Self::Connection,
        sql: Arc<str>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Runs [`Texts::admit`].
    fn admit(
        connection: &mut Self::Connection,
        sql: Arc<str>,
        key: &[u8],
        token: i64,
    ) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;

    /// Runs [`Texts::advance`]; says whether there was a row whose token is not higher.
    fn advance(
        connection: &mut Self::Connection,
        sql: Arc<str>,
        id: &impl Id<Self>,
        token: i64,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Runs [`Texts::highest`]: the row, and its token if it has one.
    fn highest(
        connection: &mut Self::Connection,
        sql: Arc<str>,
        id: &impl Id<Self>,
    ) -> impl Future<Output = Result<Option<Option<i64>>, sqlx::Error>> + Send;

    /// Says what a failure means.
    fn trouble(error: sqlx::Error) -> Error;

    /// Whether a table or column is missing.
    fn is_missing(error: &sqlx::Error) -> bool;
}
