//! One task that takes locks, works under them and gives them back, in all the ways there are.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use distlock_conformance::history::{Recorder, What};
use distlock_conformance::recording::Tracked;
use distlock_core::{LockClient, LockGuard, LockKey, LockOptions, WaitPolicy};

use crate::resource::Resource;

pub(crate) struct Contender {
    pub(crate) client: LockClient,
    pub(crate) places: Arc<Vec<(LockKey, Resource)>>,
    pub(crate) log: Arc<Recorder>,
    pub(crate) rng: fastrand::Rng,
    pub(crate) ttl: Duration,
    pub(crate) rounds: usize,
    /// How many futures were dropped midway, in the whole run.
    pub(crate) dropped: Arc<AtomicU64>,
    /// It takes a lock that it got for one that it has.
    pub(crate) trusts_a_flag: bool,
}

impl Contender {
    pub(crate) async fn contend(mut self) {
        for _ in 0..self.rounds {
            let at = self.rng.usize(..self.places.len());
            if let Some(guard) = self.lock(at).await {
                self.work(at, guard).await;
            }
            if self.rng.u8(..24) == 0 {
                // An operator, for whom no weather is made.
                let _ = self.client.admin().expect("memory has one").force_unlock(&self.places[at].0).await;
            }
            let pause = self.some(Duration::from_millis(50));
            tokio::time::sleep(pause).await;
        }
    }

    async fn lock(&mut self, at: usize) -> Option<LockGuard> {
        let patience = self.some(self.ttl * 3);
        let options = LockOptions::default().ttl(self.ttl).wait(WaitPolicy::UpTo(patience));
        let (client, key) = (self.client.clone(), self.places[at].0.clone());
        match self.rng.u8(..6) {
            0 => client.try_lock_with(&key, &options).await.ok().flatten(),
            1 | 2 => {
                let op = self.log.next_op();
                let nanos = u64::try_from(patience.as_nanos()).ok();
                self.log.record(&key, "", What::Wait { op, patience: nanos });
                let granted = client.lock_with(&key, &options).await.ok();
                self.log.record(&key, "", What::Waited { op });
                granted
            }
            3 => {
                let limit = self.some(self.ttl);
                let endless = options.wait(WaitPolicy::Forever);
                let granted = tokio::time::timeout(limit, client.lock_with(&key, &endless)).await;
                self.dropped.fetch_add(u64::from(granted.is_err()), Ordering::Relaxed);
                granted.ok().and_then(Result::ok)
            }
            _ => self.partly(client.lock_with(&key, &options)).await.and_then(Result::ok),
        }
    }

    async fn work(&mut self, at: usize, guard: LockGuard) {
        let guard = Tracked::new(guard, &self.log);
        let places = Arc::clone(&self.places);
        let resource = &places[at].1;
        let token = guard.guard().token();
        let read = resource.read_for(token);
        let most = if self.rng.u8(..6) == 0 { self.ttl * 3 } else { self.ttl / 8 };
        let pause = self.some(most);
        tokio::time::sleep(pause).await;
        // A careless holder does not even ask; that is for the fence to catch.
        if self.believes(&guard) || self.rng.u8(..3) == 0 {
            resource.write(token, read + 1);
        }
        if self.rng.u8(..8) == 0 {
            let _ = guard.guard().renew().await;
            guard.is_valid();
        }
        match self.rng.u8(..4) {
            0 => drop(guard),
            1 => drop(self.partly(guard.unlock()).await),
            _ => drop(guard.unlock().await),
        }
    }

    fn believes(&self, guard: &Tracked) -> bool {
        if !self.trusts_a_flag {
            return guard.is_valid();
        }
        let guard = guard.guard();
        let until = guard.valid_until().as_nanos();
        self.log.record(guard.key(), guard.owner(), What::Checked { valid: true, until });
        true
    }

    /// Polls a future a random number of times, and drops it then.
    async fn partly<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut left = self.rng.usize(1..24);
        let output = {
            let mut future = pin!(future);
            poll_fn(|context| {
                left -= 1;
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => Poll::Ready(Some(output)),
                    Poll::Pending if left == 0 => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await
        };
        self.dropped.fetch_add(u64::from(output.is_none()), Ordering::Relaxed);
        output
    }

    fn some(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }
}
