//! Where a database server is and how to use it.

mod from_url;
mod setters;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Result};

pub(crate) use from_url::URL_OPTIONS;

/// Where a database server is and how to use it: PostgreSQL, MySQL or MariaDB.
///
/// ```
/// use distlock_sql::postgres::ServerConfig;
/// use std::time::Duration;
/// let config = ServerConfig::new("db.example").user("locks").database("app").response_timeout(Duration::from_secs(1));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The servers, as `host` or `host:port`. Of several, the first that takes writes is used.
    /// Default: `127.0.0.1`.
    pub servers: Vec<String>,
    /// The Unix socket to use in place of `servers`: with PostgreSQL the folder it is in. Default: none.
    pub socket: Option<PathBuf>,
    /// The user. Default: the server's own name for its first user, `postgres` or `root`.
    pub user: Option<String>,
    /// The password. Never shown.
    pub password: Option<String>,
    /// The database. Default: with PostgreSQL the one named like the user; with MySQL one has to be named.
    pub database: Option<String>,
    /// The PostgreSQL schema of the tables. Default: the first of the user's search path.
    pub schema: Option<String>,
    /// The name of the table with the locks; others begin with it. All programs that share locks need
    /// the same. Up to 48 letters, digits and underscores; default `distlock_locks`.
    pub table: String,
    /// Whether to create the tables if they are missing. Default: yes.
    pub create: bool,
    /// Whether to encrypt; needs the feature `tls`. Default: no.
    pub tls: bool,
    /// A file with the certificate authority to trust, in PEM format, in place of Mozilla's list.
    /// Default: none.
    pub ca: Option<PathBuf>,
    /// A file with the certificate to show to a server that wants one, in PEM format; goes with `key`.
    /// Default: none.
    pub cert: Option<PathBuf>,
    /// A file with the private key of `cert`, in PEM format. Default: none.
    pub key: Option<PathBuf>,
    /// The most connections for statements, 2 to 1000; a quarter of them, at least one, is kept for
    /// renewing and unlocking. Waiting for releases takes one more. Default: 8.
    pub connections: u32,
    /// Longest time to open a connection. 10 ms to 1 min; default 1 s.
    pub connect_timeout: Duration,
    /// Longest time for a statement, waiting for a connection and for others' row locks included.
    /// 10 ms to 1 min; default 1.8 s. The client's own limit (ttl/6, at most 2 s) ends an operation too.
    pub response_timeout: Duration,
    /// MySQL and MariaDB, which can't tell of a release: longest pause between two looks for one, while
    /// somebody waits. 10 ms to 1 s; default 100 ms.
    pub poll: Duration,
    /// PostgreSQL: whether a pooler stands in between that may give each transaction another server
    /// session, such as PgBouncer in transaction mode. Then nothing is prepared or set for a session, and
    /// releases are looked for every `poll`. Default: no.
    pub pooled: bool,
    /// How long the record of a lock that nobody holds is kept, and with it the lock's last token.
    /// Longer than the server's clock is ever set back. 1 s to 10 years; default 24 h.
    pub keep_idle: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            servers: vec!["127.0.0.1".to_owned()],
            socket: None,
            user: None,
            password: None,
            database: None,
            schema: None,
            table: "distlock_locks".to_owned(),
            create: true,
            tls: false,
            ca: None,
            cert: None,
            key: None,
            connections: 8,
            connect_timeout: Duration::from_secs(1),
            // Less than the client's own limit, so that this error is the one that is seen.
            response_timeout: Duration::from_millis(1800),
            poll: Duration::from_millis(100),
            pooled: false,
            keep_idle: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl ServerConfig {
    pub(crate) fn check(&self) -> Result<()> {
        const MS: Duration = Duration::from_millis(1);
        const MINUTE: Duration = Duration::from_secs(60);
        const YEARS: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
        within("connect_timeout", self.connect_timeout, 10 * MS, MINUTE)?;
        within("response_timeout", self.response_timeout, 10 * MS, MINUTE)?;
        within("poll", self.poll, 10 * MS, Duration::from_secs(1))?;
        within("keep_idle", self.keep_idle, Duration::from_secs(1), YEARS)?;
        if !(2..=1000).contains(&self.connections) {
            return invalid(format!(
                "the option `connections` is {}, but must be from 2 to 1000",
                self.connections
            ));
        }
        if self.servers.is_empty() && self.socket.is_none() {
            return invalid("no server is named; write for example `localhost`");
        }
        check_name("table", &self.table, 48)?;
        if let Some(schema) = &self.schema {
            check_name("schema", schema, 63)?;
        }
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        if let Some((name, _)) = files.iter().find(|(_, file)| file.is_some() && !self.tls) {
            return invalid(format!("`{name}` has no use without encryption; add `tls=on`"));
        }
        if self.cert.is_some() != self.key.is_some() {
            return invalid("`cert` and `key` go together: a certificate and its private key");
        }
        if self.tls && !cfg!(feature = "tls") {
            return Err(Error::new(
                ErrorKind::FeatureDisabled,
                "this program was built without encryption; build it with the feature `tls`",
            ));
        }
        Ok(())
    }
}

/// Names are put into statements as they are, so they may hold nothing that means anything there.
fn check_name(option: &str, name: &str, most: usize) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if begins && name.len() <= most && name.bytes().all(plain) {
        return Ok(());
    }
    invalid(format!(
        "the option `{option}` takes up to {most} lower-case letters, digits and underscores, and begins with none of the digits"
    ))
}

fn within(name: &str, value: Duration, least: Duration, most: Duration) -> Result<()> {
    if value >= least && value <= most {
        return Ok(());
    }
    invalid(format!("the option `{name}` is {value:?}, but must be from {least:?} to {most:?}"))
}

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOptions, message))
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("servers", &self.servers)
            .field("socket", &self.socket)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("database", &self.database)
            .field("schema", &self.schema)
            .field("table", &self.table)
            .field("create", &self.create)
            .field("tls", &self.tls)
            .field("ca", &self.ca)
            .field("cert", &self.cert)
            .field("key", &self.key)
            .field("connections", &self.connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("response_timeout", &self.response_timeout)
            .field("poll", &self.poll)
            .field("pooled", &self.pooled)
            .field("keep_idle", &self.keep_idle)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_in_a_statement_are_refused() {
        for name in ["", "1a", "a b", "a\"", "a;", "A", "ä", "a-b", &"a".repeat(49)] {
            let config = ServerConfig { table: name.to_owned(), ..ServerConfig::default() };
            assert_eq!(config.check().unwrap_err().kind(), ErrorKind::InvalidOptions, "{name}");
        }
        ServerConfig::default().schema("locks_2").table("_x9").check().unwrap();
    }
}
