//! Contenders whose every step is recorded, for tests in which servers or nodes are hurt meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock_conformance::history::{Promises, Recorder, What, check};
use distlock_conformance::recording::{Canary, Recorded, Register, Tracked};
use distlock_core::{Clock, ErrorKind, LockBackend, LockClient, LockKey, LockOptions, WaitPolicy};
use distlock_testbed::{LateWriter, Place};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::{connect, eventually, key};

/// The ttl of all their locks.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// How long each of them waits for the lock.
const PATIENCE: Duration = Duration::from_secs(20);

/// Contenders for one lock, each with a session of its own.
pub(crate) struct Crew {
    pub(crate) log: Arc<Recorder>,
    folder: TempDir,
    /// The longest pause of each of them between two locks.
    breath: Duration,
    canary: Canary,
    stop: watch::Sender<bool>,
    workers: Vec<(Arc<AtomicUsize>, JoinHandle<()>)>,
    told: Arc<Mutex<Vec<ErrorKind>>>,
}

struct Worker {
    key: LockKey,
    log: Arc<Recorder>,
    folder: PathBuf,
    breath: Duration,
    rounds: Arc<AtomicUsize>,
    /// Whether it has somebody beside it who stands still until the end.
    late: bool,
    told: Arc<Mutex<Vec<ErrorKind>>>,
    stop: watch::Receiver<bool>,
}

impl Crew {
    pub(crate) fn new() -> Self {
        Self::with_breath(Duration::from_millis(20))
    }

    pub(crate) fn with_breath(breath: Duration) -> Self {
        Self {
            log: Arc::new(Recorder::in_memory(Clock::system())),
            folder: tempfile::tempdir().unwrap(),
            breath,
            canary: Canary::start(),
            stop: watch::Sender::new(false),
            workers: Vec::new(),
            told: Arc::default(),
        }
    }

    /// Starts one more contender, at a place of a network if one is given.
    pub(crate) fn add(&mut self, url: &str, place: Option<&Place>) {
        let rounds = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            key: key("crew"),
            log: Arc::clone(&self.log),
            folder: self.folder.path().to_owned(),
            breath: self.breath,
            rounds: Arc::clone(&rounds),
            late: self.workers.is_empty(),
            told: Arc::clone(&self.told),
            stop: self.stop.subscribe(),
        };
        let url = url.to_owned();
        let work = async move { worker.work(&url).await };
        let task = match place {
            Some(place) => place.spawn(work),
            None => tokio::spawn(work),
        };
        self.workers.push((rounds, task));
    }

    /// Waits until each of them has had the lock some times from now on.
    pub(crate) async fn all_work(&self, when: &str) {
        let before: Vec<_> = self.workers.iter().map(|(rounds, _)| rounds.load(Ordering::Relaxed)).collect();
        eventually(&format!("all work {when}"), async || {
            self.workers.iter().zip(&before).all(|((rounds, task), before)| {
                assert!(!task.is_finished(), "a contender ended");
                rounds.load(Ordering::Relaxed) >= before + 3
            })
        })
        .await;
    }

    /// Ends the work, and holds what happened against the promises.
    pub(crate) async fn finish(self, promises: Promises) {
        self.stop.send_replace(true);
        let mut rounds = 0;
        for (done, task) in self.workers {
            task.await.expect("no contender panics");
            rounds += done.load(Ordering::Relaxed);
        }
        let delay = u64::try_from(self.canary.worst().as_nanos()).unwrap_or(u64::MAX);
        self.log.record("", "", What::End { delay });
        let violations = check(&self.log.events(), promises);
        let told = self.told.lock().unwrap();
        eprintln!("{rounds} rounds, {} waits that were told why not: {told:?}", told.len());
        let text: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert!(text.is_empty(), "{}", text.join("\n"));
    }
}

impl Worker {
    async fn work(self, url: &str) {
        let backend = connect(url).await as Arc<dyn LockBackend>;
        let client = LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&self.log))));
        let options = LockOptions::default().ttl(TTL).wait(WaitPolicy::UpTo(PATIENCE));
        let fenced = Register::fenced(&self.folder, Arc::clone(&self.log));
        let unfenced = Register::unfenced(&self.folder, Arc::clone(&self.log));
        let late = if self.late { Some(self.late_writer(url).await) } else { None };
        while !*self.stop.borrow() {
            let op = self.log.next_op();
            let patience = u64::try_from(PATIENCE.as_nanos()).ok();
            self.log.record(&self.key, "", What::Wait { op, patience });
            let granted = client.lock_with(&self.key, &options).await;
            self.log.record(&self.key, "", What::Waited { op });
            match granted {
                Ok(guard) => {
                    let guard = Tracked::new(guard, &self.log);
                    let token = guard.guard().token();
                    let read = (fenced.read_for(token), unfenced.read());
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
                    if guard.is_valid() {
                        fenced.write(token, read.0 + 1);
                        unfenced.write(token, read.1 + 1);
                    }
                    let _ = guard.unlock().await;
                    self.rounds.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    let kinds = [ErrorKind::Unavailable, ErrorKind::WaitTimeout, ErrorKind::TooSlow];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    self.told.lock().unwrap().push(error.kind());
                }
            }
            tokio::time::sleep(self.breath.mul_f64(fastrand::f64())).await;
        }
        if let Some((late, rival)) = late {
            late.write(&rival).await;
        }
        client.shutdown(Duration::from_secs(20)).await;
    }

    /// And its rival. Below a root of their own: a test may delete the crew's with all that is there.
    async fn late_writer(&self, url: &str) -> (LateWriter, LockClient) {
        let url = url.replacen('?', "-late?", 1);
        let client = async || {
            let backend = connect(&url).await as Arc<dyn LockBackend>;
            LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&self.log))))
        };
        let folder = self.folder.join("late");
        let late = LateWriter::start(client().await, "late", TTL, &folder, &self.log).await;
        (late, client().await)
    }
}
