//! Contenders of one process that take and release locks through a client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{LockClient, LockKey, LockOptions, Release, Result};
use tokio::task::JoinSet;

use crate::floor::{ended, pause};
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
}

#[derive(Debug)]
struct Lane {
    key: LockKey,
    witness: Witness,
    line: Line,
}

/// What a round gave.
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
                let key = LockKey::new(format!("{prefix}/{n}"))?;
                Ok(Lane { key, witness: Witness::new(), line: Line::default() })
            })
            .collect::<Result<_>>()?;
        Ok(Self { client: client.clone(), options: params.lock_options(), params, lanes })
    }

    /// Lets all contenders work for `length`.
    pub(crate) async fn round(self: &Arc<Self>, length: Duration) -> Result<Tally> {
        let until = Instant::now() + length;
        let mut tasks = JoinSet::new();
        for contender in 0..self.params.contenders {
            let pairs = Arc::clone(self);
            tasks.spawn(async move { pairs.work(contender, until).await });
        }
        let mut tally = Tally::new(self.params.contenders);
        while let Some(done) = tasks.join_next().await {
            tally.add(&done.map_err(ended)??);
        }
        Ok(tally)
    }

    /// Overlapping holds and tokens that did not rise.
    pub(crate) fn violations(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.witness.violations()).sum()
    }

    /// Contenders who were served before one who had come earlier.
    pub(crate) fn inversions(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.line.inversions()).sum()
    }

    async fn work(&self, contender: usize, until: Instant) -> Result<Tally> {
        let mut tally = Tally::new(self.params.contenders);
        let lane = &self.lanes[contender % self.lanes.len()];
        loop {
            let called = Instant::now();
            if called >= until {
                return Ok(tally);
            }
            let lock = self.client.lock_with(&lane.key, &self.options);
            let (number, guard) = lane.line.join(lock).await;
            let guard = guard?;
            let granted = Instant::now();
            lane.witness.enter(&guard);
            lane.line.served(number);
            if let Some(hand_off) = lane.witness.handed_off(called, granted) {
                tally.hand_off.record(hand_off);
            }
            pause(self.params.hold).await;
            let releasing = lane.witness.leave(&guard);
            if guard.unlock().await? != Release::Released {
                tally.lost += 1;
            }
            tally.latency.record(granted.duration_since(called) + releasing.elapsed());
            tally.pairs[contender] += 1;
            pause(self.params.think).await;
        }
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
        let tally = pairs.round(Duration::from_millis(200)).await.unwrap();
        assert!(tally.pairs.iter().all(|pairs| *pairs > 0), "{:?}", tally.pairs);
        assert_eq!((pairs.violations(), pairs.inversions(), tally.lost), (0, 0, 0));
        assert!(!tally.hand_off.is_empty());
    }
}
