//! How connections are opened.

use distlock_core::{Error, ErrorKind, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlSslMode};
use sqlx::{AssertSqlSafe, MySqlConnection, Row as _};

use crate::server::{Fitness, ServerConfig};

/// How to open a connection to `host` at `port`, or to the socket if there is one.
pub(super) fn options(config: &ServerConfig, host: &str, port: u16) -> Result<MySqlConnectOptions> {
    if config.schema.is_some() {
        let message = "MySQL has no schemas within a database; name the database in the path of the URL";
        return Err(Error::new(ErrorKind::InvalidOptions, message));
    }
    if config.pooled {
        let message = "`pooled` is for PostgreSQL; connect to the MySQL server itself";
        return Err(Error::new(ErrorKind::InvalidOptions, message));
    }
    let Some(database) = &config.database else {
        let message =
            "no database is named; write it into the path of the URL, for example `mysql://localhost/app`";
        return Err(Error::new(ErrorKind::InvalidOptions, message));
    };
    let mut options = MySqlConnectOptions::new()
        .host(host)
        .port(port)
        .username(config.user.as_deref().unwrap_or("root"))
        .database(database)
        .ssl_mode(if config.tls { MySqlSslMode::VerifyIdentity } else { MySqlSslMode::Disabled });
    if let Some(socket) = &config.socket {
        options = options.socket(socket);
    }
    if let Some(password) = &config.password {
        options = options.password(password);
    }
    if let Some(ca) = &config.ca {
        options = options.ssl_ca(ca);
    }
    if let (Some(cert), Some(key)) = (&config.cert, &config.key) {
        options = options.ssl_client_cert(cert).ssl_client_key(key);
    }
    Ok(options)
}

/// `read_only` and, on MariaDB, which alone carries out such a comment, `wsrep_on`.
const FITNESS: &str = "SELECT CAST(@@global.read_only AS CHAR), CAST(0 /*M! + @@global.wsrep_on */ AS CHAR)";

/// The same where MariaDB was built without the latter. It costs the server some milliseconds.
const SLOW_FITNESS: &str = "SHOW GLOBAL VARIABLES LIKE 'read_only'";

/// A system variable that the server does not know.
const UNKNOWN_VARIABLE: u16 = 1193;

/// Sets the session up, and says whether the server is fit for locks: one round trip.
///
/// Under READ COMMITTED a statement locks the one row it is about, and no gaps between rows.
pub(super) async fn set_up(
    connection: &mut MySqlConnection,
    config: &ServerConfig,
) -> Result<Fitness, sqlx::Error> {
    // Whole seconds; a row that somebody keeps locked must not use up all of the time.
    let patience = (config.response_timeout.as_secs() / 2).max(1);
    let set_up = format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
         SET SESSION innodb_lock_wait_timeout = {patience}, autocommit = 1; {FITNESS}"
    );
    match sqlx::raw_sql(AssertSqlSafe(set_up)).fetch_one(&mut *connection).await {
        Ok(row) => Ok(fitness(row.try_get(0)?, row.try_get(1)?)),
        Err(error) if number(&error) == Some(UNKNOWN_VARIABLE) => {
            let row = sqlx::raw_sql(SLOW_FITNESS).fetch_one(connection).await?;
            Ok(fitness(row.try_get(1)?, "0"))
        }
        Err(error) => Err(error),
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

/// What the variables say. Newer servers have more values than these two for each.
fn fitness(read_only: &str, wsrep_on: &str) -> Fitness {
    let is_off = |value: &str| matches!(value, "0" | "OFF");
    if !is_off(wsrep_on) {
        Fitness::SeveralWriters
    } else if is_off(read_only) {
        Fitness::Fit
    } else {
        Fitness::ReadOnly
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b097_nodes_of_galera_are_refused_whether_or_not_they_take_writes() {
        assert_eq!(fitness("0", "1"), Fitness::SeveralWriters);
        assert_eq!(fitness("ON", "ON"), Fitness::SeveralWriters);
        for read_only in ["1", "ON", "NO_LOCK"] {
            assert_eq!(fitness(read_only, "0"), Fitness::ReadOnly);
        }
        assert_eq!(fitness("OFF", "0"), Fitness::Fit);
    }
}
