//! Opening connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Result, Timers};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind as RedisKind,
    IntoConnectionInfo, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, RedisResult,
    ServerErrorKind, Value,
};

use super::{Pushes, tls};
use crate::config::{Credentials, CredentialsProvider, RedisConfig};
use crate::error::{EVICTS, NO_CREDENTIALS, classify_opening};
use crate::probe::report::Report;
use crate::script;

/// Whom a password without a user belongs to.
const DEFAULT_USER: &str = "default";

/// Opens connections to one server.
#[derive(Clone)]
pub(crate) struct Opener {
    client: Client,
    credentials: Option<Arc<dyn CredentialsProvider>>,
    connect_timeout: Duration,
    response_timeout: Duration,
    wants_master: bool,
    bears_eviction: bool,
}

impl Opener {
    /// Opens connections to the server at `address`.
    pub(crate) fn new(config: &RedisConfig, address: &str) -> Result<Self> {
        let info = connection_info(config, address)?;
        let client = if config.tls { tls::client(config, info)? } else { plain_client(info)? };
        Ok(Self::of(config, client))
    }

    /// Opens connections where `client` does, with its credentials.
    pub(crate) fn from_client(config: &RedisConfig, client: &Client) -> Result<Self> {
        let info = client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp_settings(config));
        Ok(Self::of(config, plain_client(info)?))
    }

    fn of(config: &RedisConfig, client: Client) -> Self {
        Self {
            client,
            credentials: config.credentials.clone(),
            connect_timeout: config.connect_timeout,
            response_timeout: config.response_timeout,
            wants_master: false,
            bears_eviction: config.allow_eviction,
        }
    }

    /// The same, but a server that is not a master now is refused.
    pub(super) fn of_a_master(self) -> Self {
        Self { wants_master: true, ..self }
    }

    /// Longest time that a command may take.
    pub(crate) const fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    /// Opens a connection and teaches the scripts to its server, unless that throws keys away: another
    /// one may stand there than before. What is sent on it later is not
    /// limited in time; the limits of the client crate take a timer of the runtime each.
    pub(crate) async fn open(&self, pushes: Pushes) -> RedisResult<MultiplexedConnection> {
        let limit = self.connect_timeout + self.response_timeout;
        Timers::new().limit(limit, self.open_unlimited(pushes)).await.unwrap_or_else(|| Err(timed_out()))
    }

    async fn open_unlimited(&self, pushes: Pushes) -> RedisResult<MultiplexedConnection> {
        let mut connection = self.connect(pushes, None).await?;
        let mut loading = redis::pipe();
        for script in script::all() {
            loading.add_command(script.load());
        }
        loading.cmd("INFO").arg("memory");
        // Whoever may not load scripts may still run them, and a server that does not tell is taken.
        let mut answers = connection.send_packed_commands(&loading, 0, loading.len()).await?;
        if !self.bears_eviction
            && let Some(report) = answers.pop().and_then(|answer| Report::read(&answer))
            && let Some(policy) = report.evicts()
        {
            return Err((RedisKind::InvalidClientConfig, EVICTS, policy.to_owned()).into());
        }
        Ok(connection)
    }

    /// Opens a connection.
    pub(crate) async fn listen(&self, pushes: Pushes) -> RedisResult<MultiplexedConnection> {
        self.connect(pushes, Some(self.response_timeout)).await
    }

    async fn connect(
        &self,
        pushes: Pushes,
        response_timeout: Option<Duration>,
    ) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(response_timeout)
            .set_push_sender(move |push: PushInfo| -> std::result::Result<(), redis::aio::SendError> {
                pushes(push);
                Ok(())
            });
        let mut connection =
            self.authorised_client().await?.get_multiplexed_async_connection_with_config(&config).await?;
        if self.wants_master {
            is_master(&redis::cmd("ROLE").query_async(&mut connection).await?)?;
        }
        Ok(connection)
    }

    /// Whether somebody else knows the credentials, and may know better ones.
    pub(crate) const fn has_provider(&self) -> bool {
        self.credentials.is_some()
    }

    /// Changes when the credentials do.
    pub(crate) fn credentials_version(&self) -> u64 {
        self.credentials.as_ref().map_or(0, |provider| provider.version())
    }

    /// Authenticates an open connection with the credentials of the moment.
    pub(crate) async fn authenticate(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let Some(provider) = &self.credentials else { return Ok(()) };
        let credentials = self.ask(&**provider).await?;
        let mut command = redis::cmd("AUTH");
        command.arg(credentials.user_name().unwrap_or(DEFAULT_USER)).arg(credentials.secret());
        let answer = command.exec_async(connection);
        Timers::new().limit(self.response_timeout, answer).await.unwrap_or_else(|| Err(timed_out()))
    }

    /// The client, with the credentials of the moment.
    async fn authorised_client(&self) -> RedisResult<Client> {
        let Some(provider) = &self.credentials else { return Ok(self.client.clone()) };
        let credentials = self.ask(&**provider).await?;
        let info = self.client.get_connection_info().clone();
        let settings = info
            .redis_settings()
            .clone()
            .set_username(credentials.user_name().unwrap_or(DEFAULT_USER))
            .set_password(credentials.secret());
        Client::open(info.set_redis_settings(settings))
    }

    async fn ask(&self, provider: &dyn CredentialsProvider) -> RedisResult<Credentials> {
        let answer = tokio::select! {
            answer = provider.credentials() => answer.map_err(|error| error.to_string()),
            () = tokio::time::sleep(self.connect_timeout) => Err("no answer in time".to_owned()),
        };
        answer.map_err(|cause| RedisError::from((RedisKind::Client, NO_CREDENTIALS, cause)))
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Checks an answer to `ROLE`. A server that was demoted, or that started as a replica, answers reads
/// from data that may be old.
pub(super) fn is_master(role: &Value) -> RedisResult<()> {
    let is_master = match role {
        Value::Array(parts) => parts.first() == Some(&Value::BulkString(b"master".to_vec())),
        _ => false,
    };
    if is_master {
        return Ok(());
    }
    Err((RedisKind::Server(ServerErrorKind::ReadOnly), "the server is not the master now").into())
}

/// The error for what was not answered in time.
pub(super) fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

fn connection_info(config: &RedisConfig, address: &str) -> Result<ConnectionInfo> {
    let mut settings =
        RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(config.database);
    if let Some(user) = &config.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &config.password {
        settings = settings.set_password(password);
    }
    let info = address_of(config, address)?.into_connection_info().map_err(classify_opening)?;
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp_settings(config)))
}

fn address_of(config: &RedisConfig, address: &str) -> Result<ConnectionAddr> {
    if address.starts_with('/') {
        return Ok(ConnectionAddr::Unix(address.into()));
    }
    let invalid = || {
        Error::new(
            ErrorKind::InvalidOptions,
            format!("`{}` is no server's address; write `host:port`", address.escape_debug()),
        )
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(invalid)?;
    let port = port.parse().map_err(|_| invalid())?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(if config.tls {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    })
}

/// A dead peer is noticed by the kernel as well, also by a connection that only listens.
fn tcp_settings(config: &RedisConfig) -> TcpSettings {
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(3));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(config.response_timeout.saturating_mul(3));
    #[cfg(not(target_os = "linux"))]
    let _ = config;
    settings
}

fn plain_client(info: ConnectionInfo) -> Result<Client> {
    Client::open(info).map_err(classify_opening)
}
