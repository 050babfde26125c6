//! The floor of Redlock: three rounds of scripts, each sent to all servers at once.

use std::sync::Arc;

use distlock::redis::BareScripts;
use distlock::{Claim, Error, ErrorKind, LockKey, Metadata, OwnerId, Result, StoreUrl};
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;

use super::Floor;
use super::redis::{TTL, connect, failed};

/// A connection to each server, and the backend's own scripts. As with the backend, a round is over when a
/// majority has answered.
#[derive(Debug)]
pub(crate) struct RedlockFloor {
    connections: Vec<MultiplexedConnection>,
    scripts: Arc<BareScripts>,
    metadata: Metadata,
    /// What this lane holds.
    claim: Claim,
}

impl Floor for RedlockFloor {
    const PAIRS_PER_READING: u32 = 1;

    async fn open(url: &StoreUrl) -> Result<Self> {
        let scripts = BareScripts::new(&format!("bench-floor/{:016x}:", fastrand::u64(..)));
        let mut connections = Vec::new();
        for host in &url.hosts {
            let connection = connect(url, &host.name, host.port).await;
            let mut connection = connection.map_err(|error| failed("connect", error))?;
            scripts.load(&mut connection).await.map_err(|error| failed("load the scripts", error))?;
            connections.push(connection);
        }
        let (metadata, claim) = (Metadata::of_this_process(), Claim::mint(LockKey::new("0")?));
        Ok(Self { connections, scripts: Arc::new(scripts), metadata, claim })
    }

    fn another(&self) -> Option<Self> {
        Some(Self {
            connections: self.connections.clone(),
            scripts: Arc::clone(&self.scripts),
            metadata: self.metadata.clone(),
            claim: self.claim.clone(),
        })
    }

    async fn acquire(&mut self, lane: usize) -> Result<()> {
        self.claim = Claim::new(LockKey::new(lane.to_string())?, OwnerId::random());
        let (claim, metadata, scripts) = (&self.claim, &self.metadata, &self.scripts);
        let needed = self.connections.len() / 2 + 1;
        let mut votes: FuturesUnordered<_> = self
            .connections
            .iter_mut()
            .map(async |connection| scripts.vote(connection, claim, TTL, metadata).await)
            .collect();
        let mut tokens = Vec::new();
        while tokens.len() < needed {
            match votes.next().await {
                Some(vote) => tokens.extend(vote.map_err(|error| failed("vote", error))?),
                None => return Err(Error::new(ErrorKind::Other, "the bare lock was not free")),
            }
        }
        drop(votes);
        let token = tokens.into_iter().max().unwrap_or_default();
        let mut confirmed = 0;
        let mut answers: FuturesUnordered<_> = self
            .connections
            .iter_mut()
            .map(async |connection| scripts.confirm(connection, claim, token).await)
            .collect();
        while confirmed < needed {
            match answers.next().await {
                Some(answer) => confirmed += usize::from(answer.map_err(|error| failed("confirm", error))?),
                None => return Err(Error::new(ErrorKind::Other, "the bare lock's token was refused")),
            }
        }
        Ok(())
    }

    async fn release(&mut self, _: usize) -> Result<()> {
        let (claim, scripts) = (&self.claim, &self.scripts);
        let released =
            self.connections.iter_mut().map(async |connection| scripts.release(connection, claim).await);
        let mut released: FuturesUnordered<_> = released.collect();
        let mut count = 0;
        let needed = released.len() / 2 + 1;
        while count < needed {
            match released.next().await {
                Some(answer) => {
                    count += usize::from(answer.map_err(|error| failed("release the bare lock", error))?);
                }
                None => return Err(Error::new(ErrorKind::Other, "the bare lock was not held")),
            }
        }
        Ok(())
    }
}
