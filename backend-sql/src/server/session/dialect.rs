//! What the kinds of servers do differently with locks of sessions.

use std::time::Duration;

use super::ear::Ear;
use crate::server::statement::{Template, Value};
use crate::server::{Dialect, Line, ServerConfig};

/// A kind of server with locks of sessions.
pub(crate) trait SessionDialect: Dialect {
    /// The connections that locks are held on.
    type Line: Line<Self>;
    /// What hears of the end of their sessions.
    type Ear: Ear<Self>;

    /// The backend's name.
    const SESSION_BACKEND: &'static str;

    /// The statements. `tokens` is the table of tokens, quoted, and `space` what stands before the zero byte in names.
    fn session_statements(tokens: &str, space: &str) -> SessionStatements;

    /// The setting by which the server ends a session that has been idle for this long, or longer.
    fn idle_limit(ttl: Duration) -> Value;

    /// How connections are opened.
    fn opening(config: &ServerConfig) -> ServerConfig {
        config.clone()
    }

    /// Makes a connection that was just opened fit, where more is to be done than for lease rows.
    fn set_up_session(
        connection: &mut Self::Connection,
        config: &ServerConfig,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// The statements. A lock's name is the table's, a zero byte, and the key.
#[derive(Debug)]
pub(crate) struct SessionStatements {
    /// The number of the session. The number is the answer's first column, as with all of these.
    pub(crate) id: Template,
    /// Takes the lock if it is free. Name, key, owner, metadata, idle limit. Gives the token, or 1 where
    /// `bump` gives it; 0 if the lock is not free, and -1 if it is another key's, too. Then the session's number.
    pub(crate) take: Template,
    /// Sets the idle limit, where `take` and `live` do not. Idle limit.
    pub(crate) limit: Option<Template>,
    /// Draws the token, where `take` does not. Key, owner, metadata.
    pub(crate) bump: Option<Template>,
    /// Shows that the session lives, and sets the idle limit. Name, idle limit. Gives the session's number,
    /// and whether it holds the lock.
    pub(crate) live: Template,
    /// Gives the lock back. Name. Gives whether it was held.
    pub(crate) free: Template,
    /// Looks at the lock. Name, key. Gives the number of the session that holds it, 0 if there is none, then the
    /// key, token, owner and metadata of whoever had it last.
    pub(crate) look: Template,
    /// Held locks: key, token, owner, metadata. Least key, key to come after, key to stay below, limit.
    pub(crate) list: Template,
    /// Ends the session that holds the lock. Name, number of the session.
    pub(crate) end: Template,
    /// The server's time in microseconds.
    pub(crate) now: Template,
    /// Creates the table of tokens unless it is there.
    pub(crate) create: String,
}
