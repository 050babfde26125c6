//! Hearing of releases.

use std::fmt::Debug;

use async_trait::async_trait;
use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use super::{Failure, Opener, Pushes};
use crate::names::Names;

/// Where releases are heard of, as long as it is kept.
#[async_trait]
pub(crate) trait Subscription: Debug + Send + Sync {
    /// Asks whether everything is still heard. If not, it never will be again.
    async fn is_alive(&mut self) -> bool;

    /// Resolves when another server is to be listened to. May be dropped and called again.
    async fn outdated(&mut self) {
        std::future::pending().await
    }
}

/// A subscription of one server's channel for everybody.
#[derive(Debug)]
pub(super) struct Plain(MultiplexedConnection);

impl Plain {
    pub(super) async fn open(opener: &Opener, names: &Names, pushes: Pushes) -> Result<Self, Failure> {
        let mut connection = opener.listen(pushes).await.map_err(Failure::unsent)?;
        connection.subscribe(names.listening_channel()).await.map_err(Failure::unsent)?;
        Ok(Self(connection))
    }
}

#[async_trait]
impl Subscription for Plain {
    async fn is_alive(&mut self) -> bool {
        ping(&mut self.0).await.is_ok()
    }
}

pub(super) async fn ping(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    redis::cmd("PING").query_async(connection).await
}
