//! Several clients that lock, work and unlock all the while, and whose history is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use distlock_conformance::history::{Promises, Recorder, What, check};
use distlock_conformance::recording::{Canary, Recorded, Register, Tracked};
use distlock_core::{LockBackend, LockClient, LockKey, LockOptions, WaitPolicy};
use distlock_redis::{RedisBackend, Topology};
use distlock_testbed::LateWriter;
use tokio::task::JoinSet;

use crate::servers::connect;

pub(crate) const TTL: Duration = Duration::from_secs(2);
const CLIENTS: usize = 4;
const KEYS: usize = 3;

/// Several clients that lock, work and unlock all the while.
pub(crate) struct Load {
    log: Arc<Recorder>,
    canary: Canary,
    /// How many turns each client had with each key.
    turns: Vec<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
    /// It stands still from before all faults until after them, and its rival.
    late: (LateWriter, LockClient),
    _folder: tempfile::TempDir,
}

impl Load {
    pub(crate) async fn start(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let first: Arc<dyn LockBackend> = Arc::new(connect(url).await);
        let log = Arc::new(Recorder::in_memory(first.clock()));
        let (stop, mut clients, mut turns) = (Arc::new(AtomicBool::new(false)), JoinSet::new(), Vec::new());
        for number in 0..CLIENTS {
            let backend: Arc<dyn LockBackend> = Arc::new(connect(url).await);
            let client = LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&log))));
            let own: Vec<_> = (0..KEYS).map(|_| Arc::new(AtomicU64::new(0))).collect();
            turns.extend(own.iter().cloned());
            let (log, stop, folder) = (Arc::clone(&log), Arc::clone(&stop), folder.path().to_owned());
            clients.spawn(async move {
                let mut at = number;
                while !stop.load(Ordering::Relaxed) {
                    at = (at + 1) % KEYS;
                    let place = folder.join(at.to_string());
                    std::fs::create_dir_all(&place).unwrap();
                    let fenced = Register::fenced(&place, Arc::clone(&log));
                    let registers = (fenced, Register::unfenced(&place, Arc::clone(&log)));
                    if work(&client, &format!("load-{at}"), &registers, &log).await {
                        own[at].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let client = async || {
            let backend: Arc<dyn LockBackend> = Arc::new(connect(url).await);
            LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&log))))
        };
        let late = folder.path().join("late");
        let late = LateWriter::start(client().await, "load-late", TTL, &late, &log).await;
        let late = (late, client().await);
        let load = Self { log, canary: Canary::start(), turns, stop, clients, late, _folder: folder };
        load.all_work_within("at first", Instant::now(), Duration::from_secs(20)).await;
        load
    }

    /// Fails unless every client has a turn with every key that began after now before the limit from `since` is over.
    pub(crate) async fn all_work_within(&self, when: &str, since: Instant, limit: Duration) {
        // The turn that is under way may have begun before, so two.
        let before: Vec<_> = self.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect();
        loop {
            let now: Vec<_> = self.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect();
            if now.iter().zip(&before).all(|(now, before)| *now >= before + 2) {
                eprintln!(
                    "{when}: every client worked with every key after {:?}; turns {now:?}",
                    since.elapsed()
                );
                return;
            }
            assert!(
                since.elapsed() < limit,
                "{when}: {:?} later, turns are {now:?} after {before:?}",
                since.elapsed()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends, and checks everything but that holds never overlap: a failover may have lost some.
    pub(crate) async fn end(self) {
        self.end_with(Promises::without_exclusion).await;
    }

    /// Ends, and checks everything.
    pub(crate) async fn end_without_overlaps(self) {
        self.end_with(|promises| promises).await;
    }

    async fn end_with(mut self, promised: impl FnOnce(Promises) -> Promises) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client.unwrap();
        }
        let (late, rival) = self.late;
        late.write(&rival).await;
        let delay = u64::try_from(self.canary.worst().as_nanos()).unwrap();
        self.log.record("", "", What::End { delay });
        let promises = promised(Promises::of(&RedisBackend::describe(&Topology::Cluster)));
        let events = self.log.events();
        let violations = check(&events, promises);
        assert!(
            violations.is_empty(),
            "{}",
            violations.iter().map(|one| format!("{one}\n")).collect::<String>()
        );
        eprintln!("{} events without a violation, worst delay {:?}", events.len(), self.canary.worst());
    }
}

/// Every client works again this long after a failover.
pub(crate) const AGAIN: Duration = Duration::from_secs(2 * TTL.as_secs() + 5);

async fn work(client: &LockClient, key: &str, registers: &(Register, Register), log: &Arc<Recorder>) -> bool {
    let options = LockOptions::default().ttl(TTL).wait(WaitPolicy::UpTo(Duration::from_millis(500)));
    let Ok(guard) = client.lock_with(LockKey::new(key).unwrap(), &options).await else { return false };
    let guard = Tracked::new(guard, log);
    let token = guard.guard().token();
    let read = (registers.0.read_for(token), registers.1.read());
    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
    let was_valid = guard.is_valid();
    if was_valid {
        registers.0.write(token, read.0 + 1);
        registers.1.write(token, read.1 + 1);
    }
    // After a failover the lock may be somebody else's.
    let _ = guard.unlock().await;
    was_valid
}
