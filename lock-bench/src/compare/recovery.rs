//! How long a lock stays taken after its holder crashed.

use std::time::{Duration, Instant};

use distlock::{Error, ErrorKind, LockClient, LockOptions, Registry, Result, WaitPolicy};

use crate::contender::{Job, Shift};
use crate::processes::Contender;

/// The holder's ttl.
pub(super) const TTL: Duration = Duration::from_secs(2);
/// Longer than any store takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a crash led to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// From the holder's death to the next grant.
    pub(super) gap: Duration,
    /// Whether the next token was not above the dead holder's.
    pub(super) violations: u64,
}

/// Lets a process of its own take a lock, kills it while a contender of this process waits, and sees when that
/// one gets the lock. It dies at a random time between two renewals.
pub(super) async fn recovery(registry: &Registry, url: &str) -> Result<Recovery> {
    let client = registry.connect(url).await?;
    let recovery = watched(&client, url).await;
    client.shutdown(Duration::from_secs(10)).await;
    recovery
}

async fn watched(client: &LockClient, url: &str) -> Result<Recovery> {
    if !client.info().supports.processes {
        let name = client.info().name;
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("`{name}` has no holders in other processes"),
        ));
    }
    let key = format!("bench/{:016x}/crash", fastrand::u64(..));
    let mut holder = Contender::start(&Job {
        url: url.to_owned(),
        key: key.clone(),
        hold: Duration::from_secs(3600),
        think: Duration::ZERO,
        ttl: TTL,
        patience: PATIENCE,
        tasks: 1,
        announce: true,
    })
    .await?;
    holder.say(&Shift { start: 0, stop: u64::MAX }).await?;
    let token = holder.holding(PATIENCE).await?;
    let options = LockOptions::default().ttl(TTL).wait(WaitPolicy::UpTo(PATIENCE));
    let next = {
        let client = client.clone();
        tokio::spawn(async move {
            let guard = client.lock_with(key, &options).await?;
            let (granted, token) = (Instant::now(), guard.token().get());
            guard.unlock().await?;
            Ok::<_, Error>((granted, token))
        })
    };
    tokio::time::sleep(TTL / 2 + (TTL / 3).mul_f64(fastrand::f64())).await;
    let killed = Instant::now();
    holder.kill().await?;
    let (granted, next_token) = next.await.map_err(crate::floor::ended)??;
    let early = granted < killed;
    Ok(Recovery {
        gap: granted.saturating_duration_since(killed),
        violations: u64::from(next_token <= token) + u64::from(early),
    })
}
