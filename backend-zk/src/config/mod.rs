//! Where the servers are and how to use them.

mod from_url;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Result};

use crate::session::Limits;

/// Most requests of one session under way at once.
const CALLS: usize = 256;

/// Where the servers are and how to use them.
///
/// ```
/// use distlock_zk::ZkConfig;
/// use std::time::Duration;
/// let config = ZkConfig::new(["zk1:2181", "zk2:2181", "zk3:2181"])
///     .path("/services/locks")
///     .session_timeout(Duration::from_secs(20));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ZkConfig {
    /// The servers of one ensemble, as `host:port`. Default: `127.0.0.1:2181`.
    pub servers: Vec<String>,
    /// The node under which all locks are; it is made if need be. All programs that share locks need
    /// the same. Default: `/distlock`.
    pub path: String,
    /// The user for digest authentication. Default: none.
    pub user: Option<String>,
    /// The password for digest authentication. Default: none. Never shown.
    pub password: Option<String>,
    /// Who may use the nodes that are made. Default: [`Access::Creator`] with a user, else [`Access::Open`].
    pub access: Option<Access>,
    /// Whether to encrypt; needs the feature `tls` and [`ca`](ZkConfig::ca). Default: no.
    pub tls: bool,
    /// A file with the certificate authorities to trust, in PEM format. Default: none.
    pub ca: Option<PathBuf>,
    /// A file with the certificate to show to servers that want one, in PEM format; goes with `key`.
    /// Default: none.
    pub cert: Option<PathBuf>,
    /// A file with the private key of `cert`, in PEM format. Default: none.
    pub key: Option<PathBuf>,
    /// After this much silence the servers end the session, and the locks held in it. They have limits
    /// of their own, by default 2 and 20 ticks, which are 4 s and 40 s. A lock's ttl is at most half of
    /// what they give. 500 ms to 10 min; default 10 s.
    pub session_timeout: Duration,
    /// Longest time to open a session. 10 ms to 1 min; default 5 s.
    pub connect_timeout: Duration,
    /// Longest time for an answer. 10 ms to 1 min; default 2 s. The client's own limit (ttl/6, at most
    /// 2 s) ends an operation too.
    pub response_timeout: Duration,
}

/// Who may use the nodes that the backend makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Anybody.
    Open,
    /// Only who has the same credentials.
    Creator,
}

impl Default for ZkConfig {
    fn default() -> Self {
        Self {
            servers: vec!["127.0.0.1:2181".to_owned()],
            path: "/distlock".to_owned(),
            user: None,
            password: None,
            access: None,
            tls: false,
            ca: None,
            cert: None,
            key: None,
            session_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(2),
        }
    }
}

impl ZkConfig {
    /// The defaults, on these servers: `host:port` each.
    #[must_use]
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { servers: servers.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Sets the node under which all locks are.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets user and password for digest authentication.
    #[must_use]
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        (self.user, self.password) = (Some(user.into()), Some(password.into()));
        self
    }

    /// Sets who may use the nodes that are made.
    #[must_use]
    pub const fn access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// Sets whether to encrypt.
    #[must_use]
    pub const fn tls(mut self, on: bool) -> Self {
        self.tls = on;
        self
    }

    /// Sets the file with the certificate authorities to trust.
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

    /// Sets after how much silence the servers are to end the session.
    #[must_use]
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets the longest time to open a session.
    #[must_use]
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the longest time for an answer.
    #[must_use]
    pub const fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    pub(crate) fn effective_access(&self) -> Access {
        self.access.unwrap_or(if self.user.is_some() { Access::Creator } else { Access::Open })
    }

    pub(crate) const fn limits(&self) -> Limits {
        Limits { answer: self.response_timeout, calls: CALLS }
    }

    pub(crate) fn check(&self) -> Result<()> {
        const MINUTE: Duration = Duration::from_secs(60);
        let ms = Duration::from_millis;
        within("session_timeout", self.session_timeout, ms(500), MINUTE * 10)?;
        within("connect_timeout", self.connect_timeout, ms(10), MINUTE)?;
        within("response_timeout", self.response_timeout, ms(10), MINUTE)?;
        check_servers(&self.servers)?;
        check_path(&self.path)?;
        match (&self.user, &self.password) {
            (Some(user), Some(_)) if user.is_empty() || user.contains(':') => {
                return invalid("a user's name is not empty and has no colon");
            }
            (Some(_), Some(_)) | (None, None) => {}
            _ => return invalid("user and password go together; write zk://user:password@host"),
        }
        if self.access == Some(Access::Creator) && self.user.is_none() {
            return invalid(
                "nodes for their creator alone need a user and a password; write zk://user:password@host",
            );
        }
        self.check_encryption()
    }

    fn check_encryption(&self) -> Result<()> {
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        if let Some((name, _)) = files.iter().find(|(_, file)| file.is_some() && !self.tls) {
            return invalid(format!("`{name}` has no use without encryption; write zks:// instead of zk://"));
        }
        if self.tls && self.ca.is_none() {
            return invalid("encryption needs `ca`, a file with the certificate authorities to trust");
        }
        if self.cert.is_some() != self.key.is_some() {
            return invalid("`cert` and `key` go together: a certificate and its private key");
        }
        if self.tls && !cfg!(feature = "tls") {
            return Err(Error::new(
                ErrorKind::FeatureDisabled,
                "encrypted connections need the cargo feature `tls`, which this build lacks; build with `--features tls`",
            ));
        }
        Ok(())
    }
}

pub(crate) fn check_servers(servers: &[String]) -> Result<()> {
    if servers.is_empty() {
        return invalid("no server is named; write for example `127.0.0.1:2181`");
    }
    match servers.iter().find(|server| server.contains([',', '/'])) {
        Some(server) => {
            invalid(format!("`{}` is no server's address; write host:port", server.escape_debug()))
        }
        None => Ok(()),
    }
}

fn check_path(path: &str) -> Result<()> {
    let parts = path.strip_prefix('/').unwrap_or_default().split('/');
    let is_plain = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.contains(|c: char| {
                c.is_control() || matches!(c, '\u{f000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
            })
    };
    if path.len() > 256 || !parts.clone().all(is_plain) {
        return invalid(
            "the path of the locks is no node's: it starts with a slash, has no empty parts, and at most 256 bytes",
        );
    }
    if path == "/zookeeper" || path.starts_with("/zookeeper/") {
        return invalid("what is under /zookeeper belongs to the servers; choose another path");
    }
    Ok(())
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

impl fmt::Debug for ZkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkConfig")
            .field("servers", &self.servers)
            .field("path", &self.path)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("access", &self.access)
            .field("tls", &self.tls)
            .field("ca", &self.ca)
            .field("cert", &self.cert)
            .field("key", &self.key)
            .field("session_timeout", &self.session_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("response_timeout", &self.response_timeout)
            .finish()
    }
}
