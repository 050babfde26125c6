//! The floor of the Redis store: two scripts on one connection.

use std::sync::Arc;
use std::time::Duration;

use distlock::redis::BareScripts;
use distlock::{Claim, Error, ErrorKind, LockKey, Metadata, OwnerId, Result, StoreUrl};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    RedisResult,
};

use super::Floor;

pub(super) const TTL: Duration = Duration::from_secs(30);

const DEFAULT_PORT: u16 = 6379;

/// A connection that all keys share, as the backend's do, and the backend's own scripts.
#[derive(Debug)]
pub(crate) struct RedisFloor {
    connection: MultiplexedConnection,
    scripts: Arc<BareScripts>,
    metadata: Metadata,
    /// What this lane holds.
    claim: Claim,
}

impl Floor for RedisFloor {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let Some(host) = url.hosts.first().filter(|_| matches!(url.scheme.as_str(), "redis" | "valkey"))
        else {
            return Err(Error::new(ErrorKind::Unsupported, "the floor is known of `redis://host` alone"));
        };
        let mut connection =
            connect(url, &host.name, host.port).await.map_err(|error| failed("connect", error))?;
        let scripts = BareScripts::new(&format!("bench-floor/{:016x}:", fastrand::u64(..)));
        scripts.load(&mut connection).await.map_err(|error| failed("load the scripts", error))?;
        let (metadata, claim) = (Metadata::of_this_process(), Claim::mint(LockKey::new("0")?));
        Ok(Self { connection, scripts: Arc::new(scripts), metadata, claim })
    }

    fn another(&self) -> Option<Self> {
        Some(Self {
            connection: self.connection.clone(),
            scripts: Arc::clone(&self.scripts),
            metadata: self.metadata.clone(),
            claim: self.claim.clone(),
        })
    }

    async fn acquire(&mut self, lane: usize) -> Result<()> {
        self.claim = Claim::new(LockKey::new(lane.to_string())?, OwnerId::random());
        let granted = self.scripts.acquire(&mut self.connection, &self.claim, TTL, &self.metadata).await;
        match granted.map_err(|error| failed("take the bare lock", error))? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Other, "the bare lock was not free")),
        }
    }

    async fn release(&mut self, _: usize) -> Result<()> {
        let released = self.scripts.release(&mut self.connection, &self.claim).await;
        match released.map_err(|error| failed("release the bare lock", error))? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Other, "the bare lock was not held")),
        }
    }
}

pub(super) async fn connect(
    url: &StoreUrl,
    host: &str,
    port: Option<u16>,
) -> RedisResult<MultiplexedConnection> {
    let mut settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    settings = settings.set_db(url.path.parse().unwrap_or(0));
    if let Some(user) = &url.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &url.password {
        settings = settings.set_password(password);
    }
    let info = ConnectionAddr::Tcp(host.to_owned(), port.unwrap_or(DEFAULT_PORT))
        .into_connection_info()?
        .set_redis_settings(settings)
        .set_tcp_settings(TcpSettings::default().set_nodelay(true));
    // The driver's own limit sets a timer for every command, which the backend does without.
    let settings = AsyncConnectionConfig::new().set_response_timeout(None);
    Client::open(info)?.get_multiplexed_async_connection_with_config(&settings).await
}

pub(super) fn failed(what: &str, error: redis::RedisError) -> Error {
    Error::new(ErrorKind::Unavailable, format!("can't {what} for the floor")).caused_by(error)
}
