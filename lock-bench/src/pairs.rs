//! Contenders of one process that take and release locks through a client.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use distlock::{LockClient, LockKey, LockOptions, Release, Result};
use tokio::task::JoinSet;

use crate::floor::{ended, pause, think};
use crate::latency::Latency;
use crate::line::Line;
use crate::options::Params;
use crate::witness::Witness;

/// The contenders of a scenario, and the locks they want.
#[derive(Debug)]
pub(crate) struct Pairs {
    client: LockClient,
    options: LockOptions,
    params: Params,
    lanes: Vec<Lane>,
    /// How often they have worked.
    rounds: AtomicU32,
}

/// One lock, and what is seen of it.
#[derive(Debug)]
struct Lane {
    key: LockKey,
    witness: Witness,
    line: Line,
    /// One for all its contenders: a crowd of distributions would take more memory than its locks.
    tally: Mutex<Tally>,
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// From calling `lock` to `unlock` having answered, without the hold.
    pub(crate) latency: Latency,
    /// From one contender calling `unlock` to another, who waited, having the lock.
    pub(crate) hand_off: Latency,
    /// Pairs by contender.
    pub(crate) pairs: Vec<u64>,
    /// Holds that were over before they were given back.
    pub(crate) lost: u64,
}

impl Tally {
    pub(crate) fn new(contenders: usize) -> Self {
        Self { latency: Latency::new(), hand_off: Latency::new(), pairs: vec![0; contenders], lost: 0 }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.hand_off.add(&other.hand_off);
        self.lost += other.lost;
        for (sum, pairs) in self.pairs.iter_mut().zip(&other.pairs) {
            *sum += pairs;
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.pairs.iter().sum()
    }
}

impl Pairs {
    /// Contenders for one key below `prefix`, or for one each.
    pub(crate) fn new(client: &LockClient, params: Params, one_key: bool, prefix: &str) -> Result<Self> {
        let keys = if one_key { 1 } else { params.contenders };
        let lanes = (0..keys)
            .map(|n| {
                Ok(Lane {
                    key: LockKey::new(format!("{prefix}/{n}"))?,
                    witness: Witness::new(),
                    line: Line::default(),
                    tally: Mutex::new(Tally::new(params.contenders)),
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            client: client.clone(),
            options: params.lock_options(),
            params,
            lanes,
            rounds: AtomicU32::new(0),
        })
    }

    /// Lets all contenders work for `length`.
    pub(crate) async fn round(self: &Arc<Self>, length: Duration) -> Result<()> {
        let until = Instant::now() + length;
        let mut tasks = JoinSet::new();
        let contenders = self.params.contenders;
        let first = first_of(self.rounds.fetch_add(1, Ordering::Relaxed), contenders);
        for contender in (first..contenders).chain(0..first) {
            let pairs = Arc::clone(self);
            tasks.spawn(async move { pairs.work(contender, until).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(ended)??;
        }
        Ok(())
    }

    /// Takes and releases the first lock so often, and does nothing else.
    pub(crate) async fn plainly(self: &Arc<Self>, times: u64) -> Result<()> {
        let pairs = Arc::clone(self);
        let mut task = JoinSet::new();
        task.spawn(async move {
            for _ in 0..times {
                pairs.client.lock_with(&pairs.lanes[0].key, &pairs.options).await?.unlock().await?;
            }
            Ok(())
        });
        task.join_next().await.map_or(Ok(()), |done| done.map_err(ended)?)
    }

    /// Takes out what was measured since the last time.
    pub(crate) fn take(&self) -> Tally {
        let mut sum = Tally::new(self.params.contenders);
        for lane in &self.lanes {
            sum.add(&std::mem::replace(&mut *lane.tally(), Tally::new(self.params.contenders)));
        }
        sum
    }

    /// Pairs since the last time.
    pub(crate) fn operations(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.tally().operations()).sum()
    }

    /// Overlapping holds and tokens that did not rise.
    pub(crate) fn violations(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.witness.violations()).sum()
    }

    /// Contenders who were served before one who had come earlier.
    pub(crate) fn inversions(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.line.inversions()).sum()
    }

    async fn work(&self, contender: usize, until: Instant) -> Result<()> {
        let lane = &self.lanes[contender % self.lanes.len()];
        let alone = self.params.contenders == 1;
        loop {
            let called = Instant::now();
            if called >= until {
                return Ok(());
            }
            let lock = self.client.lock_with(&lane.key, &self.options);
            let (number, guard) = lane.line.join(lock).await;
            let guard = guard?;
            let granted = Instant::now();
            lane.witness.enter(&guard);
            lane.line.served(number);
            let hand_off = lane.witness.handed_off(called, granted);
            pause(self.params.hold).await;
            let releasing = lane.witness.leave(&guard);
            let release = guard.unlock().await?;
            let latency = granted.duration_since(called) + releasing.elapsed();
            lane.note(contender, latency, hand_off, release);
            think(self.params.think, alone).await;
        }
    }
}

/// Who begins. Whoever comes first in a short round has one turn more in it, so that must be another one each time,
/// and of a crowd in few rounds none far from the others.
fn first_of(round: u32, contenders: usize) -> usize {
    // The golden ratio's part of 2^32: no two rounds in a row begin near each other, and all places get their share.
    const GOLDEN: u32 = 2_654_435_769;
    let place = (u64::from(round.wrapping_mul(GOLDEN)) * contenders as u64) >> 32;
    usize::try_from(place).unwrap_or(0)
}

impl Lane {
    fn note(&self, contender: usize, latency: Duration, hand_off: Option<Duration>, release: Release) {
        let mut tally = self.tally();
        tally.latency.record(latency);
        if let Some(hand_off) = hand_off {
            tally.hand_off.record(hand_off);
        }
        tally.pairs[contender] += 1;
        tally.lost += u64::from(release != Release::Released);
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::BenchOptions;
    use crate::scenario::Scenario;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_contender_gets_its_turn_in_order_and_nobody_overlaps() {
        let client = distlock::connect("memory:").await.unwrap();
        let params = BenchOptions::new(Scenario::Hot).contenders(5).params().unwrap();
        let pairs = Arc::new(Pairs::new(&client, params, true, "t").unwrap());
        pairs.round(Duration::from_millis(200)).await.unwrap();
        let tally = pairs.take();
        assert!(tally.pairs.iter().all(|pairs| *pairs > 0), "{:?}", tally.pairs);
        assert_eq!((pairs.violations(), pairs.inversions(), tally.lost), (0, 0, 0));
        assert!(!tally.hand_off.is_empty());
        pairs.plainly(3).await.unwrap();
        assert_eq!(pairs.take().operations(), 0, "not measured");
    }

    #[test]
    fn each_contender_begins_about_as_often() {
        let mut began = [0_u32; 8];
        for round in 0..80 {
            began[first_of(round, 8)] += 1;
        }
        assert!(began.iter().all(|times| (8..=12).contains(times)), "{began:?}");
        assert_eq!(first_of(7, 1), 0);
    }
}
