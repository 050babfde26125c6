//! Building a configuration.

use std::path::PathBuf;
use std::time::Duration;

use super::ServerConfig;

impl ServerConfig {
    /// The defaults, on this server: `host` or `host:port`.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self { servers: vec![server.into()], ..Self::default() }
    }

    /// Sets the servers, of which the first that takes writes is used.
    #[must_use]
    pub fn servers(mut self, servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.servers = servers.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the Unix socket; with PostgreSQL the folder it is in.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Sets the user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the password.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets the database.
    #[must_use]
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.database = Some(name.into());
        self
    }

    /// Sets the PostgreSQL schema of the tables.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = Some(name.into());
        self
    }

    /// Sets the name of the table with the locks.
    #[must_use]
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = name.into();
        self
    }

    /// Sets whether to create missing tables.
    #[must_use]
    pub const fn create(mut self, on: bool) -> Self {
        self.create = on;
        self
    }

    /// Sets whether to encrypt.
    #[must_use]
    pub const fn tls(mut self, on: bool) -> Self {
        self.tls = on;
        self
    }

    /// Sets the file with the certificate authority to trust.
    #[must_use]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Sets the files with the certificate to show and its private key.
    #[must_use]
    pub fn identity(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        (self.cert, self.key) = (Some(cert.into()), Some(key.into()));
        self
    }

    /// Sets the most connections for statements.
    #[must_use]
    pub const fn connections(mut self, most: u32) -> Self {
        self.connections = most;
        self
    }

    /// Sets the longest time to open a connection.
    #[must_use]
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the longest time for a statement.
    #[must_use]
    pub const fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// Sets the longest pause between two looks for releases where the server can't tell of them.
    #[must_use]
    pub const fn poll(mut self, pause: Duration) -> Self {
        self.poll = pause;
        self
    }

    /// Sets whether a pooler stands in between that may give each transaction another server session.
    #[must_use]
    pub const fn pooled(mut self, on: bool) -> Self {
        self.pooled = on;
        self
    }

    /// Sets how long the record of an unheld lock is kept.
    #[must_use]
    pub const fn keep_idle(mut self, time: Duration) -> Self {
        self.keep_idle = time;
        self
    }
}
