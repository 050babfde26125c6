//! One contender of a probe: lock, work, unlock, at random.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::history::{Recorder, What};
use distlock_conformance::recording::{Register, Tracked};
use distlock_core::{LockClient, LockGuard, LockKey, LockOptions, WaitPolicy};
use tokio::sync::watch;

use super::work::Work;

/// Why it is paced: trying as fast as it can, it would drown the history in refusals.
const BREATH: Duration = Duration::from_millis(40);

pub(super) struct Contender {
    client: LockClient,
    log: Arc<Recorder>,
    rng: fastrand::Rng,
    places: Vec<Place>,
    ttl: Duration,
    patience: Duration,
}

/// A key, and what its lock protects.
pub(super) struct Place {
    key: LockKey,
    pub(super) fenced: Register,
    pub(super) unfenced: Register,
}

impl Place {
    pub(super) fn new(key: &str, folder: &Path, log: &Arc<Recorder>) -> Self {
        let key = LockKey::new(key).expect("the parent chose good keys");
        let folder = folder.join("registers").join(key.to_string().replace(['/', '\\'], "_"));
        std::fs::create_dir_all(&folder).expect("the folder is writable");
        let fenced = Register::fenced(&folder, Arc::clone(log));
        Self { key, fenced, unfenced: Register::unfenced(&folder, Arc::clone(log)) }
    }
}

impl Contender {
    pub(super) fn new(work: &Work, number: u64, client: LockClient, log: Arc<Recorder>) -> Self {
        Self {
            places: work.keys.iter().map(|key| Place::new(key, &work.folder, &log)).collect(),
            client,
            log,
            rng: fastrand::Rng::with_seed(work.seed.wrapping_mul(1_000_003).wrapping_add(number)),
            ttl: work.ttl,
            patience: work.patience,
        }
    }

    pub(super) async fn contend(mut self, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let at = self.rng.usize(..self.places.len());
            if let Some(guard) = self.lock(at).await {
                self.work(at, guard).await;
            }
            let breath = self.some(BREATH);
            tokio::time::sleep(breath).await;
        }
    }

    /// Takes the lock in one of the ways there are; now and then it gives up midway.
    async fn lock(&mut self, at: usize) -> Option<LockGuard> {
        let patience = self.some(self.patience);
        let options = LockOptions::default().ttl(self.ttl).wait(WaitPolicy::UpTo(patience));
        let choice = self.rng.u8(..8);
        let limit = self.some(patience);
        let key = &self.places[at].key;
        match choice {
            0 => self.client.try_lock_with(key, &options).await.ok().flatten(),
            1 => {
                let lock = self.client.lock_with(key, &options);
                tokio::time::timeout(limit, lock).await.ok().and_then(Result::ok)
            }
            _ => {
                let op = self.log.next_op();
                let patience = u64::try_from(patience.as_nanos()).ok();
                self.log.record(key, "", What::Wait { op, patience });
                let granted = self.client.lock_with(key, &options).await.ok();
                self.log.record(key, "", What::Waited { op });
                granted
            }
        }
    }

    async fn work(&mut self, at: usize, guard: LockGuard) {
        let guard = Tracked::new(guard, &self.log);
        let place = &self.places[at];
        let token = guard.guard().token();
        let read = blocking(|| (place.fenced.read_for(token), place.unfenced.read()));
        // Mostly short; sometimes longer than a lease lives without renewal.
        let most = if self.rng.u8(..10) == 0 { self.ttl * 2 } else { self.ttl / 20 };
        let pause = self.some(most);
        tokio::time::sleep(pause).await;
        // A careless holder does not even ask. And whoever asks may be stopped before it writes. Both are for
        // the fence to catch, and show at the unfenced twin whether a pause did harm.
        let careless = self.rng.u8(..3) == 0;
        if careless || guard.is_valid() {
            let place = &self.places[at];
            blocking(|| {
                place.write(token, read);
            });
        }
        match self.rng.u8(..6) {
            0 => drop(guard),
            1 => {
                let limit = self.some(self.ttl);
                let _ = tokio::time::timeout(limit, guard.unlock()).await;
            }
            _ => {
                let _ = guard.unlock().await;
            }
        }
    }

    fn some(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }
}

/// A register may be locked by a process that is stopped. That must hold up nothing else in this one.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}
