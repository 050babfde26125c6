//! The floor of the Redis store: two scripts on one connection.

use distlock::{Error, ErrorKind, OwnerId, Result, StoreUrl};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisResult, Script,
};

use super::Floor;

/// The same record as the store's: without the deadline in it a slot that moves would end the lock,
/// and without the labels nobody could say who holds it.
const ACQUIRE: &str = "
local time = redis.call('TIME')
local now, key = time[1] * 1000000 + time[2], KEYS[1]
local record = redis.call('HMGET', key, 'token', 'owner', 'deadline')
if record[2] and tonumber(record[3]) > now then return false end
local token = string.format('%.0f', math.max((record[1] or 0) + 1, now))
redis.call('HSET', key, 'token', token, 'owner', ARGV[1],
    'deadline', string.format('%.0f', now + ARGV[2]), 'ttl', ARGV[2], 'metadata', ARGV[3])
redis.call('PEXPIREAT', key, string.format('%.0f', now / 1000 + 86400000))
return token";

/// Gives it back, if it is still its owner's.
const RELEASE: &str = "
local key = KEYS[1]
if redis.call('HGET', key, 'owner') ~= ARGV[1] then return 0 end
redis.call('HDEL', key, 'owner', 'deadline', 'ttl', 'metadata')
return 1";

/// As long as the labels of a holder are.
const METADATA: &str = "host=localhost pid=12345";

const TTL_MICROS: u64 = 30_000_000;

const DEFAULT_PORT: u16 = 6379;

/// A connection that all keys share, as the backend's do. A script of the driver's is one command.
#[derive(Debug)]
pub(crate) struct RedisFloor {
    connection: MultiplexedConnection,
    acquire: Script,
    release: Script,
    run: u64,
    owner: String,
}

impl Floor for RedisFloor {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let Some(host) = url.hosts.first().filter(|_| matches!(url.scheme.as_str(), "redis" | "valkey"))
        else {
            return Err(Error::new(ErrorKind::Unsupported, "the floor is known of `redis://host` alone"));
        };
        let connection =
            connect(url, &host.name, host.port).await.map_err(|error| failed("connect", error))?;
        Ok(Self::on(connection, fastrand::u64(..)))
    }

    fn another(&self) -> Option<Self> {
        Some(Self::on(self.connection.clone(), self.run))
    }

    async fn acquire(&mut self, lane: usize) -> Result<()> {
        self.owner = OwnerId::random().to_string();
        let token: Option<String> = self
            .acquire
            .key(self.key(lane))
            .arg(&self.owner)
            .arg(TTL_MICROS)
            .arg(METADATA)
            .invoke_async(&mut self.connection)
            .await
            .map_err(|error| failed("take the bare lock", error))?;
        match token {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Other, "the bare lock was not free")),
        }
    }

    async fn release(&mut self, lane: usize) -> Result<()> {
        let released: i64 = self
            .release
            .key(self.key(lane))
            .arg(&self.owner)
            .invoke_async(&mut self.connection)
            .await
            .map_err(|error| failed("release the bare lock", error))?;
        match released {
            1 => Ok(()),
            _ => Err(Error::new(ErrorKind::Other, "the bare lock was not held")),
        }
    }
}

impl RedisFloor {
    fn on(connection: MultiplexedConnection, run: u64) -> Self {
        let (acquire, release) = (Script::new(ACQUIRE), Script::new(RELEASE));
        Self { connection, acquire, release, run, owner: String::new() }
    }

    fn key(&self, lane: usize) -> String {
        format!("bench-floor/{:016x}/{lane}", self.run)
    }
}

async fn connect(url: &StoreUrl, host: &str, port: Option<u16>) -> RedisResult<MultiplexedConnection> {
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
    Client::open(info)?.get_multiplexed_async_connection().await
}

fn failed(what: &str, error: redis::RedisError) -> Error {
    Error::new(ErrorKind::Unavailable, format!("can't {what} for the floor")).caused_by(error)
}
