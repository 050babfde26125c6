//! A lock's two scripts without the backend around them.

use std::time::Duration;

use distlock_core::{Claim, FencingToken, Metadata};
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult, Value};

use crate::acquire::micros;
use crate::names::Names;
use crate::reply::{Granted, granted, number, token_of};
use crate::script::{self, By};

/// A lock's two scripts, sent by hand over a connection of the driver: the least that its users could
/// pay, for those who measure what the backend and the client add to it.
///
/// It is no lock. Nothing limits how long a call takes, repeats it, follows a failover, renews or
/// tells of a loss. Use [`RedisBackend`](crate::RedisBackend) for locks.
#[derive(Debug)]
pub struct BareScripts {
    names: Names,
}

impl BareScripts {
    /// The scripts for locks on a single server, below `prefix`.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { names: Names::new(prefix) }
    }

    /// Makes the scripts known to a server.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Cancel safety
    /// May be dropped and repeated.
    pub async fn load(&self, connection: &mut impl ConnectionLike) -> RedisResult<()> {
        for script in [&script::ACQUIRE, &script::RELEASE, &script::VOTE, &script::CONFIRM] {
            script.load().query_async::<Value>(connection).await?;
        }
        Ok(())
    }

    /// One attempt, with one EVALSHA; whether the lock was granted.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Cancel safety
    /// Dropped midway, the lock may be taken for `ttl`.
    pub async fn acquire(
        &self,
        connection: &mut impl ConnectionLike,
        claim: &Claim,
        ttl: Duration,
        metadata: &Metadata,
    ) -> RedisResult<bool> {
        let owner = claim.owner.to_string();
        let arguments = [owner.as_bytes(), &micros(ttl), metadata.encode().as_bytes(), b"0"];
        let command = script::ACQUIRE.invoke(By::Hash, &[self.names.record(&claim.key)], &arguments);
        let answer = ask(command, connection).await?;
        Ok(matches!(granted(&answer), Ok(Granted::Token(_))))
    }

    /// One vote of one server of a quorum, with one EVALSHA; the token, if it was granted.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Cancel safety
    /// Dropped midway, the lock may be taken for `ttl`.
    pub async fn vote(
        &self,
        connection: &mut impl ConnectionLike,
        claim: &Claim,
        ttl: Duration,
        metadata: &Metadata,
    ) -> RedisResult<Option<u64>> {
        let owner = claim.owner.to_string();
        let keys = [self.names.record(&claim.key), self.names.birth()];
        let arguments = [owner.as_bytes(), &micros(ttl), metadata.encode().as_bytes(), b"0", b"1", b"0"];
        let answer = ask(script::VOTE.invoke(By::Hash, &keys, &arguments), connection).await?;
        Ok(match &answer {
            Value::Array(parts) if parts.first() == Some(&Value::Int(1)) => {
                parts.get(1).and_then(|token| token_of(token).ok()).map(FencingToken::get)
            }
            _ => None,
        })
    }

    /// Has one server of a quorum take over a token, with one EVALSHA; whether it did.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Cancel safety
    /// May be dropped and repeated.
    pub async fn confirm(
        &self,
        connection: &mut impl ConnectionLike,
        claim: &Claim,
        token: u64,
    ) -> RedisResult<bool> {
        let (owner, token) = (claim.owner.to_string(), token.to_string());
        let arguments = [owner.as_bytes(), token.as_bytes()];
        let command = script::CONFIRM.invoke(By::Hash, &[self.names.record(&claim.key)], &arguments);
        Ok(matches!(number(&ask(command, connection).await?), Ok(1)))
    }

    /// One release, with one EVALSHA; whether the claim held the lock.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Cancel safety
    /// Dropped midway, the lock may still be held.
    pub async fn release(&self, connection: &mut impl ConnectionLike, claim: &Claim) -> RedisResult<bool> {
        let owner = claim.owner.to_string();
        let arguments = [owner.as_bytes(), self.names.channel(), claim.key.as_bytes(), b""];
        let command = script::RELEASE.invoke(By::Hash, &[self.names.record(&claim.key)], &arguments);
        let answer = ask(command, connection).await?;
        Ok(matches!(number(&answer), Ok(1)))
    }
}

async fn ask(command: Cmd, connection: &mut impl ConnectionLike) -> RedisResult<Value> {
    command.query_async(connection).await
}
