//! Contenders while a random minority of the servers is killed, frozen and wiped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::history::{self, Promises, Recorder, What};
use distlock_conformance::recording::{Canary, Recorded, Register, Tracked};
use distlock_core::{Clock, LockBackend, LockClient, LockOptions, WaitPolicy};

use crate::rig::Servers;
use crate::support::tests;

tests![no_promise_breaks_while_a_minority_is_hurt];

const TTL: Duration = Duration::from_secs(1);
/// The long form is `make soak B=redlock`.
const TIME: Duration = Duration::from_secs(12);
const CONTENDERS: u64 = 8;

async fn no_promise_breaks_while_a_minority_is_hurt() {
    let seed = std::env::var("NEMESIS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("nemesis: seed {seed}");
    // They keep nothing, so that who is killed forgets.
    let mut servers = Servers::start(5).await;
    let log = Arc::new(Recorder::in_memory(Clock::system()));
    let canary = Canary::start();
    // One resource for each key, which counts how often it was written.
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let register = |folder: &tempfile::TempDir| Arc::new(Register::fenced(folder.path(), Arc::clone(&log)));
    let resources = [register(&folders[0]), register(&folders[1])];
    let until = Instant::now() + TIME;
    let mut contenders = Vec::new();
    let mut promises = None;
    for number in 0..CONTENDERS {
        let options = distlock_redis::RedlockOptions::default().restart_holdoff(TTL);
        let backend: Arc<dyn LockBackend> = Arc::new(servers.backend_with(options).await);
        // Servers that forget before a renewal may leave a holder with too few.
        promises = Some(Promises::of(backend.info()).with_sudden_ends());
        let client = LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&log))));
        let rng = fastrand::Rng::with_seed(seed ^ number);
        let contender = Contender { client, resources: resources.clone(), log: Arc::clone(&log), rng };
        contenders.push(tokio::spawn(contender.contend(until)));
    }
    hurt(&mut servers, fastrand::Rng::with_seed(seed), until).await;
    let mut grants = 0;
    for contender in contenders {
        grants += contender.await.unwrap();
    }
    let delay = u64::try_from(canary.worst().as_nanos()).unwrap();
    log.record("", "", What::End { delay });
    let violations = history::check(&log.events(), promises.unwrap());
    let text: Vec<_> = violations.iter().take(10).map(ToString::to_string).collect();
    assert!(violations.is_empty(), "seed {seed}: {} violations: {text:#?}", violations.len());
    assert!(grants >= 10, "seed {seed}: only {grants} grants");
}

struct Contender {
    client: LockClient,
    resources: [Arc<Register>; 2],
    log: Arc<Recorder>,
    rng: fastrand::Rng,
}

impl Contender {
    async fn contend(mut self, until: Instant) -> u32 {
        let options = LockOptions::default().ttl(TTL).wait(WaitPolicy::UpTo(Duration::from_secs(2)));
        let mut grants = 0;
        while Instant::now() < until {
            let key = self.rng.usize(..2);
            let Ok(guard) = self.client.lock_with(["one", "two"][key], &options).await else { continue };
            let guard = Tracked::new(guard, &self.log);
            grants += 1;
            let seen = self.resources[key].read();
            tokio::time::sleep(Duration::from_millis(self.rng.u64(..80))).await;
            if guard.is_valid() {
                // Whether it is still valid at the write is for the resource to say.
                self.resources[key].write(guard.guard().token(), seen + 1);
            }
            if self.rng.bool() {
                drop(guard);
            } else {
                // What could not be given back runs out.
                let _ = guard.unlock().await;
            }
        }
        let _ = self.client.shutdown(Duration::from_secs(20)).await;
        grants
    }
}

/// Hurts one or two of the five at a time, and lets them hold off before it goes on.
async fn hurt(servers: &mut Servers, mut rng: fastrand::Rng, until: Instant) {
    while Instant::now() < until {
        let mut chosen: Vec<usize> = (0..servers.0.len()).collect();
        rng.shuffle(&mut chosen);
        chosen.truncate(rng.usize(1..=2));
        let kills = rng.bool();
        for server in &chosen {
            if kills {
                servers.0[*server].kill();
            } else {
                servers.0[*server].pause();
            }
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(..1500))).await;
        for server in &chosen {
            if kills {
                servers.0[*server].start_again().await;
            } else {
                servers.0[*server].resume();
            }
        }
        let rest = if kills { TTL * 2 } else { TTL / 2 };
        tokio::time::sleep(rest.mul_f64(0.5 + rng.f64())).await;
    }
}
