//! Where the servers are and how to use them.

mod credentials;
mod from_url;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Result};

pub use credentials::{Credentials, CredentialsProvider};

/// Where the servers are and how to use them.
///
/// ```
/// use distlock_redis::RedisConfig;
/// use std::time::Duration;
/// let config = RedisConfig::new("127.0.0.1:6379").database(1).response_timeout(Duration::from_secs(1));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisConfig {
    /// How the servers work together.
    pub topology: Topology,
    /// The servers, as `host:port`, or the path of one server's Unix socket. One server; or the
    /// Sentinels; or some nodes of a Cluster. Default: `127.0.0.1:6379`.
    pub servers: Vec<String>,
    /// The user of the server's access control list. Default: none, which is `default`.
    pub user: Option<String>,
    /// The password. Never shown.
    pub password: Option<String>,
    /// Who knows the credentials if they change; counts instead of `user` and `password`. Default: none.
    pub credentials: Option<Arc<dyn CredentialsProvider>>,
    /// The database's number. Default: 0.
    pub database: i64,
    /// The user at the Sentinels, which have an access control list of their own. Default: none.
    pub sentinel_user: Option<String>,
    /// The password at the Sentinels. Default: none. Never shown.
    pub sentinel_password: Option<String>,
    /// On how many replicas a grant must have arrived before it counts, 0 to 16. One that does not get
    /// there in ttl/12, at most 1 s, is given back, and the error is
    /// [`NotReplicated`](distlock_core::ErrorKind::NotReplicated). Renewals are not waited for. Default: 0.
    pub wait_replicas: u8,
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
    /// Whether to use a server that throws keys away when its memory is full, locks among them.
    /// Default: no, such a server is refused.
    pub allow_eviction: bool,
    /// What all names in the store start with. All programs that share locks need the same; no
    /// prefix in use may be the beginning of another one. Up to 128 bytes; default `distlock:`.
    pub prefix: String,
    /// Longest time to open a connection. 10 ms to 1 min; default 1 s.
    pub connect_timeout: Duration,
    /// Longest time for a command's reply. 10 ms to 1 min; default 2 s. The client's own limit
    /// (ttl/6, at most 2 s) ends an operation too.
    pub response_timeout: Duration,
    /// Whether the store keeps a queue, so that waiters of all programs are served in the order in
    /// which they came. Default: no, and a release wakes one waiter of each program.
    pub queue: bool,
    /// How long a waiter keeps its place in the queue without a sign of life. 2 s to 1 min; default
    /// 5 s.
    pub waiter_liveness: Duration,
}

/// How the servers work together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One server.
    #[default]
    Single,
    /// Sentinels watch a master with replicas, and name another one when it fails.
    Sentinel {
        /// What the Sentinels call the master.
        master: String,
    },
    /// A Cluster, whose nodes share the keys among them.
    Cluster,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            topology: Topology::Single,
            servers: vec!["127.0.0.1:6379".to_owned()],
            user: None,
            password: None,
            credentials: None,
            database: 0,
            sentinel_user: None,
            sentinel_password: None,
            wait_replicas: 0,
            tls: false,
            ca: None,
            cert: None,
            key: None,
            allow_eviction: false,
            prefix: "distlock:".to_owned(),
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(2),
            queue: false,
            waiter_liveness: Duration::from_secs(5),
        }
    }
}

impl RedisConfig {
    /// The defaults, on this server: `host:port`, or the path of a Unix socket.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self { servers: vec![server.into()], ..Self::default() }
    }

    /// Sets how the servers work together.
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Sets the servers.
    #[must_use]
    pub fn servers(mut self, servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.servers = servers.into_iter().map(Into::into).collect();
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

    /// Sets who knows the credentials, which may change while the program runs.
    #[must_use]
    pub fn credentials(mut self, provider: impl CredentialsProvider + 'static) -> Self {
        self.credentials = Some(Arc::new(provider));
        self
    }

    /// Sets the database's number.
    #[must_use]
    pub const fn database(mut self, number: i64) -> Self {
        self.database = number;
        self
    }

    /// Sets user and password at the Sentinels.
    #[must_use]
    pub fn sentinel_credentials(mut self, user: Option<String>, password: impl Into<String>) -> Self {
        self.sentinel_user = user;
        self.sentinel_password = Some(password.into());
        self
    }

    /// Sets on how many replicas a grant must have arrived before it counts.
    #[must_use]
    pub const fn wait_replicas(mut self, number: u8) -> Self {
        self.wait_replicas = number;
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

    /// Sets whether to use a server that throws keys away when its memory is full.
    #[must_use]
    pub const fn allow_eviction(mut self, on: bool) -> Self {
        self.allow_eviction = on;
        self
    }

    /// Sets what all names in the store start with.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the longest time to open a connection.
    #[must_use]
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the longest time for a command's reply.
    #[must_use]
    pub const fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// Sets whether the store keeps a queue.
    #[must_use]
    pub const fn queue(mut self, on: bool) -> Self {
        self.queue = on;
        self
    }

    /// Sets how long a waiter keeps its place without a sign of life.
    #[must_use]
    pub const fn waiter_liveness(mut self, period: Duration) -> Self {
        self.waiter_liveness = period;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        within("connect_timeout", self.connect_timeout, Duration::from_millis(10))?;
        within("response_timeout", self.response_timeout, Duration::from_millis(10))?;
        // A waiter shows itself once a second; the network may take another.
        within("waiter_liveness", self.waiter_liveness, Duration::from_secs(2))?;
        if self.prefix.len() > 128 {
            return invalid("the option `prefix` is longer than 128 bytes");
        }
        if self.database < 0 {
            return invalid("the database's number is below 0");
        }
        if self.servers.is_empty() {
            return invalid("no server is named; write for example `127.0.0.1:6379`");
        }
        self.check_topology()?;
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
        if let Some((name, _)) = files.iter().find(|(_, file)| file.is_some() && !self.tls) {
            return invalid(format!(
                "`{name}` has no use without encryption; write rediss:// instead of redis://"
            ));
        }
        if self.cert.is_some() != self.key.is_some() {
            return invalid("`cert` and `key` go together: a certificate and its private key");
        }
        Ok(())
    }

    fn check_topology(&self) -> Result<()> {
        if self.wait_replicas > 16 {
            return invalid("the option `wait_replicas` is above 16");
        }
        let has_sentinels = matches!(self.topology, Topology::Sentinel { .. });
        if !has_sentinels && (self.sentinel_user.is_some() || self.sentinel_password.is_some()) {
            return invalid("there are no Sentinels here to give `sentinel_user` and `sentinel_password` to");
        }
        match &self.topology {
            Topology::Single if self.servers.len() > 1 => invalid(
                "one server is meant, but several are named; use redis+sentinel:// or redis+cluster:// for servers that work together",
            ),
            Topology::Sentinel { master } if master.is_empty() => {
                invalid("the master's name is empty; say what the Sentinels call it")
            }
            Topology::Cluster if self.database != 0 => invalid("a Cluster has no other database than 0"),
            // Braces would decide which node has a lock, in place of our own.
            Topology::Cluster if self.prefix.contains(['{', '}']) => {
                invalid("in a Cluster the option `prefix` can't have braces")
            }
            _ => Ok(()),
        }
    }
}

fn within(name: &str, value: Duration, least: Duration) -> Result<()> {
    let most = Duration::from_secs(60);
    if value >= least && value <= most {
        return Ok(());
    }
    invalid(format!("the option `{name}` is {value:?}, but must be from {least:?} to {most:?}"))
}

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOptions, message))
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("topology", &self.topology)
            .field("servers", &self.servers)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("credentials", &self.credentials.as_ref().map(|_| "…"))
            .field("database", &self.database)
            .field("sentinel_user", &self.sentinel_user)
            .field("sentinel_password", &self.sentinel_password.as_ref().map(|_| "…"))
            .field("wait_replicas", &self.wait_replicas)
            .field("tls", &self.tls)
            .field("ca", &self.ca)
            .field("cert", &self.cert)
            .field("key", &self.key)
            .field("allow_eviction", &self.allow_eviction)
            .field("prefix", &self.prefix)
            .field("connect_timeout", &self.connect_timeout)
            .field("response_timeout", &self.response_timeout)
            .field("queue", &self.queue)
            .field("waiter_liveness", &self.waiter_liveness)
            .finish()
    }
}
