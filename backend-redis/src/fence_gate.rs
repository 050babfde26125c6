//! Data in Redis that refuses writes from holders that came too late.

use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::{
    Effect, Error, ErrorKind, FenceGate, FencingToken, LockKey, Operation, Result, stale_token,
};
use redis::Value;

use crate::backend::{connected, connecting};
use crate::config::RedisConfig;
use crate::error::unreadable;
use crate::reply::{parts, token_of};
use crate::script::Script;
use crate::store::Store;
use crate::{RedisBackend, backend};

/// A gate before data in Redis: it admits a write only with a token that is not below the newest seen.
///
/// The gate stands where the data is, which need not be where the lock is. It keeps one small value
/// for each key, `distlock:fence:NAME` with the prefix of the configuration, and never drops it.
///
/// [`write`](RedisFenceGate::write) does check and write in one atomic step; that is what stops a
/// stale writer for good. [`admit`](FenceGate::admit) alone leaves a gap between the two.
///
/// ```no_run
/// # async fn doc(guard: distlock_core::LockGuard) -> distlock_core::Result<()> {
/// use distlock_redis::{FencedScript, RedisConfig, RedisFenceGate};
/// let gate = RedisFenceGate::connect(RedisConfig::new("127.0.0.1:6379")).await?;
/// let set = FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])");
/// gate.write(guard.key(), guard.token(), &set, &["balance/42"], &["100"]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RedisFenceGate {
    store: Arc<Store>,
    name: &'static str,
}

/// A script that runs only when its token is admitted. Make it once and keep it.
///
/// `KEYS` and `ARGV` are those that are passed to [`RedisFenceGate::write`]. In a Cluster all keys and the
/// gate's own must be in one slot: give the lock's key and the others the same `{tag}`.
#[derive(Debug)]
pub struct FencedScript(Script);

impl FencedScript {
    /// The check that comes first, for scripts that are run by other means: it defines `refuse(fence, token)`.
    /// The README of this crate shows how.
    pub const CHECK: &'static str = include_str!("scripts/admit.lua");

    /// The script `text`, in Lua.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Script::new(format!(
            "{}
local refused = refuse(KEYS[1], ARGV[1])
if refused ~= nil then return {{ 0, refused }} end
table.remove(KEYS, 1)
table.remove(ARGV, 1)
return {{ 1, (function()
{text}
end)() }}",
            Self::CHECK
        )))
    }
}

impl RedisFenceGate {
    /// Connects to where the data is. A server that throws keys away when it is full is refused, since the
    /// gate would forget.
    ///
    /// # Errors
    /// As [`RedisBackend::connect`].
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn connect(config: RedisConfig) -> Result<Self> {
        let opened = async {
            config.check()?;
            connected(&config, backend::link(&config)?).await
        };
        let store = opened.await.map_err(|error| connecting(&config.topology, error))?;
        Ok(Self { store, name: backend::name(&config.topology) })
    }

    /// Under which name the newest token of a lock's key is kept.
    #[must_use]
    pub fn fence_name(&self, key: &LockKey) -> Vec<u8> {
        self.store.names.fence(key)
    }

    /// Runs `script` if no higher token was seen for the lock `key`, in one atomic step, and gives what the
    /// script returned. The same token may write more than once.
    ///
    /// # Errors
    /// - `Lost` if a higher token was seen: whoever holds this one lost its lock. Nothing was written.
    /// - `Corrupt` if something else is under the gate's name.
    /// - What the script fails with; what it wrote before stays, as with every script.
    /// - `Unavailable` and the like, as with every operation; where the effect is not known, the write may be
    ///   repeated with the same token if the script bears that.
    ///
    /// # Cancel safety
    /// Dropped midway, the write may still be carried out, or not.
    pub async fn write(
        &self,
        key: &LockKey,
        token: FencingToken,
        script: &FencedScript,
        keys: &[impl AsRef<[u8]> + Sync],
        arguments: &[impl AsRef<[u8]> + Sync],
    ) -> Result<Value> {
        let named = |error: Error| error.on_backend(self.name).in_operation(Operation::Fence).for_key(key);
        let fence = std::iter::once(self.fence_name(key));
        let keys: Vec<_> = fence.chain(keys.iter().map(|key| key.as_ref().to_vec())).collect();
        let token_text = token.to_string();
        let arguments: Vec<_> =
            std::iter::once(token_text.as_bytes()).chain(arguments.iter().map(AsRef::as_ref)).collect();
        let answer = self.store.run(&script.0, &keys, &arguments).await.map_err(named)?;
        match parts(&answer.value).map_err(named)? {
            [Value::Int(1)] => Ok(Value::Nil),
            [Value::Int(1), returned] => Ok(returned.clone()),
            [Value::Int(0), Value::Nil | Value::Boolean(false)] | [Value::Int(0)] => Err(named(strange())),
            [Value::Int(0), highest] => {
                Err(stale_token(key, token, token_of(highest).map_err(named)?).on_backend(self.name))
            }
            _ => unreadable().map_err(named),
        }
    }
}

#[async_trait]
impl FenceGate for RedisFenceGate {
    async fn admit(&self, key: &LockKey, token: FencingToken) -> Result<()> {
        static NOTHING: std::sync::LazyLock<FencedScript> =
            std::sync::LazyLock::new(|| FencedScript::new(""));
        let none: &[&[u8]] = &[];
        self.write(key, token, &NOTHING, none, none).await.map(drop)
    }
}

impl RedisBackend {
    /// A gate for data that is on the same servers as the locks; it shares the connection, and ends
    /// with [`close`](distlock_core::LockBackend::close).
    #[must_use]
    pub fn fence_gate(&self) -> RedisFenceGate {
        RedisFenceGate { store: Arc::clone(&self.store), name: self.info.name }
    }
}

fn strange() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "what is under the gate's name is no token; see who else uses this prefix, then delete it",
    )
    .with_effect(Effect::None)
}
