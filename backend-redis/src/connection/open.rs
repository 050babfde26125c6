//! Opening connections.

use std::time::Duration;

use distlock_core::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind as RedisKind,
    IntoConnectionInfo, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisResult, ServerErrorKind, Value,
};

use super::Pushes;
use crate::config::RedisConfig;
use crate::error::classify_opening;
use crate::script;

/// Opens connections to one server.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    client: Client,
    connect_timeout: Duration,
    response_timeout: Duration,
    wants_master: bool,
}

impl Opener {
    /// Opens connections to the server at `address`.
    pub(crate) fn new(config: &RedisConfig, address: &str) -> Result<Self> {
        let info = connection_info(config, address)?;
        let client = if config.tls { tls_client(config, info)? } else { plain_client(info)? };
        Ok(Self::of(config, client))
    }

    /// Opens connections where `client` does, with its credentials.
    pub(crate) fn from_client(config: &RedisConfig, client: &Client) -> Result<Self> {
        let info = client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp_settings(config));
        Ok(Self::of(config, plain_client(info)?))
    }

    const fn of(config: &RedisConfig, client: Client) -> Self {
        Self {
            client,
            connect_timeout: config.connect_timeout,
            response_timeout: config.response_timeout,
            wants_master: false,
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

    /// Opens a connection and teaches the scripts to its server.
    pub(crate) async fn open(&self, pushes: Pushes) -> RedisResult<MultiplexedConnection> {
        let mut connection = self.listen(pushes).await?;
        let mut loading = redis::pipe();
        for script in script::all() {
            loading.add_command(script.load());
        }
        // Whoever may not load scripts may still run them.
        if let Err(error) = loading.exec_async(&mut connection).await
            && error.code().is_none()
        {
            return Err(error);
        }
        Ok(connection)
    }

    /// Opens a connection.
    pub(crate) async fn listen(&self, pushes: Pushes) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.response_timeout))
            .set_push_sender(move |push: PushInfo| -> std::result::Result<(), redis::aio::SendError> {
                pushes(push);
                Ok(())
            });
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        if self.wants_master {
            is_master(&redis::cmd("ROLE").query_async(&mut connection).await?)?;
        }
        Ok(connection)
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

#[cfg(feature = "tls")]
fn tls_client(config: &RedisConfig, info: ConnectionInfo) -> Result<Client> {
    let root_cert = config.ca.as_ref().map(|path| {
        std::fs::read(path).map_err(|error| {
            Error::new(
                ErrorKind::Misconfigured,
                format!("the file of `ca`, {}, can't be read", path.display()),
            )
            .caused_by(error)
        })
    });
    let certificates = redis::TlsCertificates { client_tls: None, root_cert: root_cert.transpose()? };
    Client::build_with_tls(info, certificates).map_err(classify_opening)
}

#[cfg(not(feature = "tls"))]
fn tls_client(_config: &RedisConfig, _info: ConnectionInfo) -> Result<Client> {
    Err(Error::new(
        ErrorKind::FeatureDisabled,
        "encrypted connections need the cargo feature `tls`, which this build lacks",
    ))
}
