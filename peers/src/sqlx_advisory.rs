//! The advisory lock that sqlx has, on PostgreSQL.

use sqlx::postgres::{PgAdvisoryLock, PgPool, PgPoolOptions};

use crate::peer::{Failure, Peer};

pub struct AdvisoryLock(PgPool);

impl Peer for AdvisoryLock {
    const NAME: &'static str = "sqlx advisory lock";
    const SCHEME: &'static str = "postgres";
    const DIFFERS: &'static str = "writes nothing, so no token, no ttl and nobody to name as the holder; a connection for every holder and waiter";
    const FASTER_ALONE: &'static str = "it writes nothing, so no commit has to reach the disk";
    const FASTER_CONTENDED: &'static str = "it writes nothing, so no commit has to reach the disk; each waiter blocks a connection of its own, and the server wakes the next by itself";

    async fn open(url: &str, contenders: usize) -> Result<Self, Failure> {
        let connections = u32::try_from(contenders)?;
        Ok(Self(PgPoolOptions::new().max_connections(connections).connect(url).await?))
    }

    async fn pair(&self, key: &str, _: usize) -> Result<(), Failure> {
        let connection = self.0.acquire().await?;
        PgAdvisoryLock::new(key).acquire(connection).await?.release_now().await?;
        Ok(())
    }
}
