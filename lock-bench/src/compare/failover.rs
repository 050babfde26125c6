//! How long nobody gets a lock when the leading server dies.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use distlock::{LockClient, LockKey, LockOptions, Registry, Result, WaitPolicy};
use tokio::task::JoinSet;

use super::breaker::{Deed, order};
use crate::witness::Witness;

/// Locks that are taken all the time; several, since a store may divide them among servers.
const KEYS: usize = 16;
/// Of the locks, so that one whose release got lost is free again soon.
const TTL: Duration = Duration::from_secs(2);
/// How long grants are watched before the break, and after the last lock was granted again.
const CALM: Duration = Duration::from_secs(1);
/// Longer than any store takes.
const PATIENCE: Duration = Duration::from_secs(90);
/// Pause after a failed call and between two holds.
const PAUSE: Duration = Duration::from_millis(2);

/// What a failover led to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    /// The longest time without a grant of any one lock.
    pub(super) gap: Duration,
    /// Overlapping holds and tokens that did not rise.
    pub(super) violations: u64,
}

/// Has the leading server killed while locks are taken and given back, and the store mended after.
pub(super) async fn failover(registry: &Registry, url: &str, breaker: &Path, label: &str) -> Result<Outage> {
    let client = registry.connect(url).await?;
    let outage = watched(&client, breaker, label).await;
    let mended = order(breaker, Deed::Mend, label).await;
    client.shutdown(Duration::from_secs(10)).await;
    let outage = outage?;
    mended.map(|()| outage)
}

async fn watched(client: &LockClient, breaker: &Path, label: &str) -> Result<Outage> {
    let run = fastrand::u64(..);
    let mut lanes = Vec::new();
    let mut tasks = JoinSet::new();
    for n in 0..KEYS {
        let lane = Arc::new(Lane {
            key: LockKey::new(format!("bench/{run:016x}/{n}"))?,
            witness: Witness::new(),
            grants: Mutex::default(),
        });
        lanes.push(Arc::clone(&lane));
        let client = client.clone();
        tasks.spawn(async move { lane.work(&client).await });
    }
    let granted_since = |since: Instant| lanes.iter().all(|lane| lane.grants().last > Some(since));
    await_until(|| granted_since(Instant::now() - CALM), PATIENCE).await;
    let before = Instant::now();
    await_until(|| before.elapsed() > CALM, CALM * 2).await;
    let broken = Instant::now();
    for lane in &lanes {
        lane.grants().longest = Duration::ZERO;
    }
    order(breaker, Deed::Break, label).await?;
    let back = Instant::now();
    // A grant after the break alone proves nothing: it may have been under way.
    await_until(|| back.elapsed() > CALM && granted_since(back + CALM / 2), PATIENCE).await;
    let settled = Instant::now();
    await_until(|| granted_since(settled), PATIENCE).await;
    tasks.shutdown().await;
    let longest = lanes.iter().map(|lane| lane.grants().longest_by(broken)).max();
    Ok(Outage {
        gap: longest.unwrap_or_default(),
        violations: lanes.iter().map(|lane| lane.witness.violations()).sum(),
    })
}

/// Polls; gives up quietly, since what is measured then tells.
async fn await_until(condition: impl Fn() -> bool, limit: Duration) {
    let began = Instant::now();
    while !condition() && began.elapsed() < limit {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One lock and its grants.
#[derive(Debug)]
struct Lane {
    key: LockKey,
    witness: Witness,
    grants: Mutex<Grants>,
}

#[derive(Debug, Default)]
struct Grants {
    last: Option<Instant>,
    longest: Duration,
}

impl Grants {
    fn note(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(now.duration_since(last));
        }
    }

    /// The longest pause that ended, or that goes on; `since` if there was never a grant.
    fn longest_by(&self, since: Instant) -> Duration {
        self.longest.max(self.last.unwrap_or(since).elapsed())
    }
}

impl Lane {
    /// Takes the lock and gives it back, whatever the store answers, until it is aborted.
    async fn work(&self, client: &LockClient) {
        let options = LockOptions::default().ttl(TTL).wait(WaitPolicy::UpTo(PATIENCE));
        loop {
            if let Ok(guard) = client.lock_with(&self.key, &options).await {
                self.witness.enter(&guard);
                self.grants().note(Instant::now());
                self.witness.leave(&guard);
                // Lost or not: what counts is the next grant.
                let _ = guard.unlock().await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_counts_even_if_it_goes_on() {
        let began = Instant::now();
        let mut grants = Grants::default();
        grants.note(began);
        grants.note(began + Duration::from_millis(30));
        grants.note(began + Duration::from_millis(40));
        assert_eq!(grants.longest, Duration::from_millis(30));
        let silent = Grants { last: Some(began - Duration::from_secs(9)), longest: Duration::ZERO };
        assert!(silent.longest_by(began) >= Duration::from_secs(9));
    }
}
