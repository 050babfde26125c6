//! Several clients that lock, work and unlock all the while, and whose history is checked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use distlock_conformance::history::{Promises, Recorder, What, check};
use distlock_conformance::recording::{Canary, Recorded, Register, Tracked};
use distlock_core::{LockBackend, LockClient, LockKey, LockOptions, StoreUrl, WaitPolicy};
use distlock_etcd::EtcdBackend;
use distlock_testbed::LateWriter;
use tokio::task::JoinSet;

pub(crate) const TTL: Duration = Duration::from_secs(2);
/// Every client works again this long after a fault.
pub(crate) const AGAIN: Duration = Duration::from_secs(2 * TTL.as_secs() + 15);
const CLIENTS: usize = 4;
const KEYS: usize = 3;

/// Several clients that lock, work and unlock all the while.
pub(crate) struct Load {
    log: Arc<Recorder>,
    canary: Canary,
    /// How many turns each client had with each key.
    turns: Vec<Arc<AtomicU64>>,
    /// When turns ended well.
    successes: Arc<Mutex<Vec<Instant>>>,
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
    /// It stands still from before all faults until after them, and its rival.
    late: (LateWriter, LockClient),
    /// Their history, and when it began. A new leader starts leases anew, and so theirs may end as late as the faults.
    late_log: (Arc<Recorder>, Instant),
    _folder: tempfile::TempDir,
}

pub(crate) async fn connect(url: &str) -> EtcdBackend {
    EtcdBackend::from_url(&mut StoreUrl::parse(url).unwrap()).await.unwrap()
}

impl Load {
    pub(crate) async fn start(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let first: Arc<dyn LockBackend> = Arc::new(connect(url).await);
        let log = Arc::new(Recorder::in_memory(first.clock()));
        let (stop, mut clients, mut turns) = (Arc::new(AtomicBool::new(false)), JoinSet::new(), Vec::new());
        let successes = Arc::new(Mutex::new(Vec::new()));
        for number in 0..CLIENTS {
            let backend: Arc<dyn LockBackend> = Arc::new(connect(url).await);
            let client = LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&log))));
            let own: Vec<_> = (0..KEYS).map(|_| Arc::new(AtomicU64::new(0))).collect();
            turns.extend(own.iter().cloned());
            let (log, stop, folder) = (Arc::clone(&log), Arc::clone(&stop), folder.path().to_owned());
            let successes = Arc::clone(&successes);
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
                        successes.lock().unwrap().push(Instant::now());
                    }
                }
            });
        }
        let late_log = Arc::new(Recorder::in_memory(first.clock()));
        let client = async || {
            let backend: Arc<dyn LockBackend> = Arc::new(connect(url).await);
            LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&late_log))))
        };
        let late = folder.path().join("late");
        let late = LateWriter::start(client().await, "load-late", TTL, &late, &late_log).await;
        let late = (late, client().await);
        let late_log = (late_log, Instant::now());
        let load = Self {
            log,
            canary: Canary::start(),
            turns,
            successes,
            stop,
            clients,
            late,
            late_log,
            _folder: folder,
        };
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
                eprintln!("{when}: every client worked with every key after {:?}", since.elapsed());
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

    /// The longest time without a turn that ended well, since `since`.
    pub(crate) fn longest_gap(&self, since: Instant) -> Duration {
        let mut successes = self.successes.lock().unwrap().clone();
        successes.sort_unstable();
        let from = successes.partition_point(|success| *success < since).saturating_sub(1);
        let gaps = successes[from..].windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    }

    /// Ends, and checks everything.
    pub(crate) async fn end(self) {
        self.end_with(|promises| promises).await;
    }

    /// The same, but overlapping holds are expected.
    pub(crate) async fn end_with_overlaps(self) {
        self.end_with(Promises::without_exclusion).await;
    }

    async fn end_with(mut self, promised: impl FnOnce(Promises) -> Promises) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client.unwrap();
        }
        let (late, rival) = self.late;
        late.write(&rival).await;
        let promises = promised(Promises::of(&EtcdBackend::describe()));
        let delay = u64::try_from(self.canary.worst().as_nanos()).unwrap();
        let (late_log, began) = self.late_log;
        let mut of_late = promises;
        of_late.lateness += began.elapsed();
        let events = self.log.events();
        let mut violations = Vec::new();
        for (log, promises) in [(&self.log, promises), (&late_log, of_late)] {
            log.record("", "", What::End { delay });
            violations.extend(check(&log.events(), promises));
        }
        assert!(
            violations.is_empty(),
            "{}",
            violations.iter().map(|one| format!("{one}\n")).collect::<String>()
        );
        eprintln!("{} events without a violation, worst delay {:?}", events.len(), self.canary.worst());
    }
}

async fn work(client: &LockClient, key: &str, registers: &(Register, Register), log: &Arc<Recorder>) -> bool {
    let options = LockOptions::default().ttl(TTL).wait(WaitPolicy::UpTo(Duration::from_millis(500)));
    let Ok(guard) = client.lock_with(LockKey::new(key).unwrap(), &options).await else { return false };
    let guard = Tracked::new(guard, log);
    let token = guard.guard().token();
    let read = (registers.0.read(), registers.1.read());
    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
    let was_valid = guard.is_valid();
    if was_valid {
        registers.0.write(token, read.0 + 1);
        registers.1.write(token, read.1 + 1);
    }
    // The answer may be lost with the member.
    let _ = guard.unlock().await;
    was_valid
}
