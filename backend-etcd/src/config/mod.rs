//! Where the servers are and how to use them.

mod from_url;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Namespace, Result};

/// The namespace of configurations that name none.
const NAMESPACE: &str = "distlock";

/// Where the servers are and how to use them.
///
/// ```
/// use distlock_etcd::EtcdConfig;
/// use std::time::Duration;
/// let config = EtcdConfig::new(["10.0.0.1:2379", "10.0.0.2:2379"]).response_timeout(Duration::from_secs(1));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct EtcdConfig {
    /// The members of the cluster, as `host:port`. One is used at a time, and left for the next when it
    /// fails, so name them all. Default: `127.0.0.1:2379`.
    pub servers: Vec<String>,
    /// The user. Default: none.
    pub user: Option<String>,
    /// The password. Never shown.
    pub password: Option<String>,
    /// What the names of all records start with, followed by a slash: `/` and `%` within it are stored as
    /// `%2F` and `%25`. All programs that share locks need the same. 1 to 128 bytes; default `distlock`.
    pub namespace: String,
    /// Whether to encrypt; needs the feature `tls`. Default: no.
    pub tls: bool,
    /// A file with the certificate authority to trust, in PEM format, in place of Mozilla's list.
    /// Default: none.
    pub ca: Option<PathBuf>,
    /// A file with the certificate to show to a server that wants one, and those that vouch for it,
    /// in PEM format; goes with `key`. Default: none.
    pub cert: Option<PathBuf>,
    /// A file with the private key of `cert`, in PEM format. Default: none.
    pub key: Option<PathBuf>,
    /// The lifetime of one lease that all locks of the client share, instead of a lease each: whole
    /// seconds, 2 s to 1 h. An uncontended lock then costs one request less, and all of them end
    /// together. No lock can have a longer ttl. Default: none, a lease each.
    pub shared_lease: Option<Duration>,
    /// Longest time to open a connection. 10 ms to 1 min; default 500 ms.
    pub connect_timeout: Duration,
    /// Longest time for a request's reply. 10 ms to 1 min; default 2 s. The client's own limit
    /// (ttl/6, at most 2 s) ends an operation too.
    pub response_timeout: Duration,
}

impl Default for EtcdConfig {
    fn default() -> Self {
        Self {
            servers: vec!["127.0.0.1:2379".to_owned()],
            user: None,
            password: None,
            namespace: NAMESPACE.to_owned(),
            tls: false,
            ca: None,
            cert: None,
            key: None,
            shared_lease: None,
            connect_timeout: Duration::from_millis(500),
            response_timeout: Duration::from_secs(2),
        }
    }
}

impl EtcdConfig {
    /// The defaults, on these servers: `host:port` each.
    #[must_use]
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::default().servers(servers)
    }

    /// Sets the servers.
    #[must_use]
    pub fn servers(mut self, servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.servers = servers.into_iter().map(Into::into).collect();
        self
    }

    /// Sets user and password.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        (self.user, self.password) = (Some(user.into()), Some(password.into()));
        self
    }

    /// Sets what the names of all records start with.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
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

    /// Sets the lifetime of one lease that all locks share.
    #[must_use]
    pub const fn shared_lease(mut self, ttl: Duration) -> Self {
        self.shared_lease = Some(ttl);
        self
    }

    /// Sets the longest time to open a connection.
    #[must_use]
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the longest time for a request's reply.
    #[must_use]
    pub const fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        const MINUTE: Duration = Duration::from_secs(60);
        within("connect_timeout", self.connect_timeout, Duration::from_millis(10), MINUTE)?;
        within("response_timeout", self.response_timeout, Duration::from_millis(10), MINUTE)?;
        if let Some(ttl) = self.shared_lease {
            within("shared_lease", ttl, Duration::from_secs(2), MINUTE * 60)?;
            if ttl.subsec_nanos() != 0 {
                return invalid(format!(
                    "the option `shared_lease` is {ttl:?}, but etcd counts leases in whole seconds"
                ));
            }
        }
        Namespace::new(&self.namespace)?;
        if self.servers.is_empty() {
            return invalid("no server is named; write for example `127.0.0.1:2379`");
        }
        if self.password.is_some() && self.user.is_none() {
            return invalid("a password is given but no user, and etcd has no default user");
        }
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        if let Some((name, _)) = files.iter().find(|(_, file)| file.is_some() && !self.tls) {
            return invalid(format!(
                "`{name}` has no use without encryption; write etcds:// instead of etcd://"
            ));
        }
        if self.cert.is_some() != self.key.is_some() {
            return invalid("`cert` and `key` go together: a certificate and its private key");
        }
        Ok(())
    }
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

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("servers", &self.servers)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("namespace", &self.namespace)
            .field("tls", &self.tls)
            .field("ca", &self.ca)
            .field("cert", &self.cert)
            .field("key", &self.key)
            .field("shared_lease", &self.shared_lease)
            .field("connect_timeout", &self.connect_timeout)
            .field("response_timeout", &self.response_timeout)
            .finish()
    }
}
