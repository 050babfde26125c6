//! How connections are opened.

use distlock_core::Result;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{PgConnection, Row as _};

use super::dialect::given;
use super::sealed;
use crate::server::{Fitness, ServerConfig};

/// Says which program a session belongs to, in `pg_stat_activity`.
const PROGRAM: &str = "distlock";

const TAKES_WRITES: &str = "SELECT current_setting('transaction_read_only') = 'off'";

/// A session that need not wait for its commits would forget grants in a crash.
const SET_UP: &str = "SELECT current_setting('transaction_read_only') = 'off',
 CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END";

/// How to open a connection to `host` at `port`, or to the socket if there is one.
///
/// The session's settings go along with the greeting, so they cost no round trip.
pub(super) fn options(config: &ServerConfig, host: &str, port: u16) -> Result<PgConnectOptions> {
    let mut options = PgConnectOptions::new_without_pgpass()
        .host(host)
        .port(port)
        .application_name(PROGRAM)
        .username(config.user.as_deref().unwrap_or("postgres"))
        .ssl_mode(if config.tls { PgSslMode::VerifyFull } else { PgSslMode::Disable });
    // A pooler has no use for settings of one client's session, and refuses them.
    if !config.pooled {
        options = options.options(settings(config));
    }
    if let Some(socket) = &config.socket {
        options = options.socket(socket);
    }
    if let Some(password) = &config.password {
        options = options.password(password);
    }
    let database = config.database.as_deref().or(config.user.as_deref());
    if let Some(database) = database {
        options = options.database(database);
    }
    if let Some(ca) = &config.ca {
        options = options.ssl_root_cert(ca);
    }
    if let (Some(cert), Some(key)) = (&config.cert, &config.key) {
        options = options.ssl_client_cert(cert).ssl_client_key(key);
    }
    Ok(options)
}

/// The settings of our own sessions.
pub(super) fn settings(config: &ServerConfig) -> [(&'static str, String); 4] {
    let statement = config.response_timeout.as_millis();
    [
        ("default_transaction_isolation", "read committed".to_owned()),
        ("statement_timeout", format!("{statement}ms")),
        // A row that somebody keeps locked must not use up all of the time.
        ("lock_timeout", format!("{}ms", (statement / 2).max(1))),
        ("idle_in_transaction_session_timeout", "10s".to_owned()),
    ]
}

/// Completes the session's settings, and says whether its server is fit for locks.
pub(super) async fn set_up(
    connection: &mut PgConnection,
    config: &ServerConfig,
) -> Result<Fitness, sqlx::Error> {
    let takes_writes = if config.pooled {
        given(sealed::send(connection, TAKES_WRITES).await?).await?.number != 0
    } else {
        sqlx::raw_sql(SET_UP).fetch_one(connection).await?.try_get(0)?
    };
    Ok(if takes_writes { Fitness::Fit } else { Fitness::ReadOnly })
}
