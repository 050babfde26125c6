//! What the kinds of servers do differently.

use distlock_core::{Effect, ErrorKind};
use sqlx::error::DatabaseError;
use sqlx::{Connection, Database};

use super::config::ServerConfig;
use super::connections::Opener;
use super::error::Trouble;
use super::statement::{Row, Statement};
use super::statements::Statements;
use super::table::Tables;
use super::waiting::Listener;

/// How to open a connection.
pub(crate) type Options<D> = <<D as Database>::Connection as Connection>::Options;

/// A kind of server: its statements, how they are sent, and what its errors mean.
pub(crate) trait Dialect: Database + 'static {
    /// The backend's name.
    const BACKEND: &'static str;
    /// The port of a server that none is given for.
    const PORT: u16;
    /// What stands around names in statements.
    const QUOTE: char;
    /// Whether [`Dialect::listen`] works: a release is told to those who wait.
    const PUSHES: bool;

    /// How to open a connection to `host` at `port`, or to the socket if there is one.
    fn options(config: &ServerConfig, host: &str, port: u16) -> distlock_core::Result<Options<Self>>;

    /// Makes a connection that was just opened fit for locks, and says whether its server is.
    fn set_up(
        connection: &mut Self::Connection,
        config: &ServerConfig,
    ) -> impl Future<Output = Result<Fitness, sqlx::Error>> + Send;

    /// Whether what is sent next on a connection of the application's counts as soon as it is answered.
    fn standing(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<Standing, sqlx::Error>> + Send;

    /// The statements on these tables.
    fn statements(tables: &Tables) -> Statements;

    /// Sends one statement, and reads its answer to the end.
    fn run(
        connection: &mut Self::Connection,
        statement: &Statement,
    ) -> impl Future<Output = Result<Given, sqlx::Error>> + Send;

    /// Sends statements without values, one after the other.
    fn run_script(
        connection: &mut Self::Connection,
        script: &str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Opens a connection that hears of releases on `channel`.
    fn listen(
        opener: &Opener<Self>,
        channel: &str,
    ) -> impl Future<Output = Result<Box<dyn Listener>, Trouble>> + Send;

    /// What an error of the server's means.
    fn meaning(error: &dyn DatabaseError) -> Meaning;
}

/// Whether a server is fit for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fitness {
    Fit,
    /// It takes no writes.
    ReadOnly,
    /// It is one of several that take writes and agree on them only afterwards.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "MySQL needs it"))]
    SeveralWriters,
}

/// How a connection of the application's stands between two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Each statement is a transaction.
    Clear,
    /// Whoever used it last has left a transaction open.
    InTransaction,
    /// No statement counts until somebody commits.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "MySQL needs it"))]
    WithoutAutocommit,
}

/// What a statement gave.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) rows: Vec<Row>,
    /// How many rows it changed or returned.
    pub(crate) matched: u64,
    /// The token of a grant, 0 if there is none.
    pub(crate) number: i64,
}

/// What an error of a server means.
#[derive(Clone, Debug)]
pub(crate) struct Meaning {
    pub(crate) kind: ErrorKind,
    pub(crate) effect: Effect,
    pub(crate) message: &'static str,
    pub(crate) then: Then,
}

/// What to do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Tell the caller.
    Fail,
    /// Others were in the way: the same statement may succeed at once.
    Again,
    /// The connection is of no use any more.
    Close,
    /// The tables are missing.
    Create,
}

impl Meaning {
    pub(crate) const fn new(kind: ErrorKind, effect: Effect, message: &'static str) -> Self {
        Self { kind, effect, message, then: Then::Fail }
    }

    pub(crate) const fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}
