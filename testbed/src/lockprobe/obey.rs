//! A probe that does what it is told.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use distlock_conformance::history::Recorder;
use distlock_conformance::recording::{Register, Tracked};
use distlock_core::{ErrorKind, LockClient, LockKey, LockOptions, LockRecord, LockState, Result, WaitPolicy};
use tokio::sync::mpsc;

use super::contender::{Place, blocking};
use super::orders::{Answer, Order, Summons};
use super::scripted::millis;

/// How long a waiter of a crowd waits.
const FOR_LONG: Duration = Duration::from_secs(120);
/// How many locks are listed at most.
const LISTED: usize = 100;

/// What a scripted probe was summoned for, if this process is one.
pub(super) fn summoned() -> Option<(String, PathBuf)> {
    let text = std::env::var(Summons::VARIABLE).ok()?;
    let summons: Summons = serde_json::from_str(&text).expect("the parent wrote it");
    Some((summons.url, summons.folder))
}

/// Obeys until the orders end.
pub(super) async fn obey(client: LockClient, folder: PathBuf, log: &Arc<Recorder>) {
    let mut orders = orders();
    let mut probe = Obedient {
        client,
        folder,
        log: Arc::clone(log),
        held: None,
        served: Arc::default(),
        failed: Arc::default(),
    };
    say(&Answer::Ready);
    while let Some(order) = orders.recv().await {
        say(&probe.obey(order).await);
    }
}

struct Obedient {
    client: LockClient,
    folder: PathBuf,
    log: Arc<Recorder>,
    held: Option<Held>,
    served: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

struct Held {
    guard: Tracked,
    place: Place,
    read: (u64, u64),
}

impl Obedient {
    async fn obey(&mut self, order: Order) -> Answer {
        match order {
            Order::Lock { key, ttl, wait } => self.lock(&key, ttl, wait).await,
            Order::Read => {
                let held = self.held();
                let token = held.guard.guard().token();
                held.read = blocking(|| (held.place.fenced.read_for(token), held.place.unfenced.read()));
                Answer::Read
            }
            Order::Write => {
                let held = self.held();
                let token = held.guard.guard().token();
                let [fenced, unfenced] = blocking(|| held.place.write(token, held.read));
                Answer::Wrote { fenced, unfenced }
            }
            Order::State => {
                let guard = &self.held().guard;
                let valid = guard.is_valid();
                Answer::State { valid, lost: matches!(guard.guard().state(), LockState::Lost(_)) }
            }
            Order::Unlock => match self.held.take().expect("it holds a lock").guard.unlock().await {
                Ok(release) => Answer::Unlocked { released: release == distlock_core::Release::Released },
                Err(error) => Answer::Failed { text: error.to_string() },
            },
            Order::Wait { key, ttl, waiters } => self.wait(&key, ttl, waiters).await,
            Order::Served => Answer::Served {
                served: self.served.load(Ordering::Relaxed),
                failed: self.failed.load(Ordering::Relaxed),
            },
            Order::Churn { prefix, ttl, within } => self.churn(&prefix, ttl, within).await,
            Order::Probe => match self.client.probe().await {
                Ok(_) => Answer::Ready,
                Err(error) => Answer::Failed { text: error.to_string() },
            },
            Order::List { prefix } => match self.list(&prefix).await {
                Ok(locks) => Answer::Listed { locks },
                Err(error) => Answer::Failed { text: error.to_string() },
            },
            Order::Clock => {
                let since = SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970");
                Answer::Clock { millis: millis(since) }
            }
        }
    }

    /// The key of each, and by whom it is held.
    async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let records = self.client.admin()?.list(prefix.as_bytes(), None, LISTED).await?;
        let text = |record: &LockRecord| {
            let owners: Vec<_> = record.holders.iter().map(|holder| holder.owner.to_string()).collect();
            let waiters = record.waiters.unwrap_or(0);
            format!("`{}`, held by {owners:?}, with {waiters} waiting", record.key)
        };
        let left = |record: &&LockRecord| !record.holders.is_empty() || record.waiters.unwrap_or(0) > 0;
        Ok(records.iter().filter(left).map(text).collect())
    }

    fn held(&mut self) -> &mut Held {
        self.held.as_mut().expect("it holds a lock")
    }

    async fn lock(&mut self, key: &str, ttl: u64, wait: u64) -> Answer {
        let wait = if wait == 0 { WaitPolicy::No } else { WaitPolicy::UpTo(Duration::from_millis(wait)) };
        let options = LockOptions::default().ttl(Duration::from_millis(ttl)).wait(wait);
        match self.client.lock_with(key, &options).await {
            Ok(guard) => {
                let token = guard.token().get();
                let place = Place::new(key, &self.folder, &self.log);
                self.held = Some(Held { guard: Tracked::new(guard, &self.log), place, read: (0, 0) });
                Answer::Held { token }
            }
            Err(error) if error.kind() == ErrorKind::WaitTimeout => Answer::Busy,
            Err(error) => Answer::Failed { text: error.to_string() },
        }
    }

    /// Returns when all of them have begun.
    async fn wait(&self, key: &str, ttl: u64, waiters: u64) -> Answer {
        let options = LockOptions::default().ttl(Duration::from_millis(ttl)).wait(WaitPolicy::UpTo(FOR_LONG));
        for _ in 0..waiters {
            let (client, key, options) = (self.client.clone(), key.to_owned(), options.clone());
            let (folder, log) = (self.folder.clone(), Arc::clone(&self.log));
            let (served, failed) = (Arc::clone(&self.served), Arc::clone(&self.failed));
            tokio::spawn(async move {
                let Ok(guard) = client.lock_with(&key, &options).await else {
                    failed.fetch_add(1, Ordering::Relaxed);
                    return;
                };
                let guard = Tracked::new(guard, &log);
                let token = guard.guard().token();
                blocking(|| {
                    let place = Place::new(&key, &folder, &log);
                    let read = (place.fenced.read_for(token), place.unfenced.read());
                    place.write(token, read);
                });
                let _ = guard.unlock().await;
                served.fetch_add(1, Ordering::Relaxed);
            });
            tokio::task::yield_now().await;
        }
        Answer::Waiting
    }

    async fn churn(&self, prefix: &str, ttl: u64, within: u64) -> Answer {
        let options = LockOptions::default().ttl(Duration::from_millis(ttl)).wait(WaitPolicy::No);
        let end = Instant::now() + Duration::from_millis(within);
        let mut rounds = 0;
        while Instant::now() < end {
            let key = LockKey::new(format!("{prefix}/{rounds}")).expect("the parent chose good keys");
            let done = match self.client.lock_with(&key, &options).await {
                Ok(guard) => guard.unlock().await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                return Answer::Churned { rounds, failed: Some(format!("{:?}: {error}", error.kind())) };
            }
            rounds += 1;
        }
        Answer::Churned { rounds, failed: None }
    }
}

/// Orders as they come, from a thread that may block.
fn orders() -> mpsc::UnboundedReceiver<Order> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            let order = serde_json::from_str(&line).expect("the parent wrote it");
            if sender.send(order).is_err() {
                return;
            }
        }
    });
    receiver
}

fn say(answer: &Answer) {
    let mut line = serde_json::to_vec(answer).expect("plain data");
    line.push(b'\n');
    let mut out = std::io::stdout();
    out.write_all(&line).and_then(|()| out.flush()).expect("the parent reads");
}

impl Place {
    /// Writes both registers, each increased by one; which of them took it.
    pub(super) fn write(&self, token: distlock_core::FencingToken, read: (u64, u64)) -> [bool; 2] {
        let put = |register: &Register, value: u64| register.write(token, value + 1);
        [put(&self.fenced, read.0), put(&self.unfenced, read.1)]
    }
}
