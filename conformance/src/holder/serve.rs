//! The holder process itself.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    Error, Lease, LockClient, LockGuard, LockKey, LockOptions, LockState, Release, WaitPolicy,
};

use super::orders::{Answer, Order, Summons, VARIABLE};
use crate::canary::Canary;
use crate::decorators::Recorded;
use crate::history::{Recorder, What, nanos};
use crate::register::Register;
use crate::subject::Subject;
use crate::tracked::Tracked;

/// Serves as a holder process until its input ends, if this process was started as one.
pub(crate) fn serve_if_asked(subject: &Arc<dyn Subject>) -> Option<ExitCode> {
    let summons = std::env::var(VARIABLE).ok()?;
    let subject = Arc::clone(subject);
    // In a thread of its own: the caller may be inside a runtime.
    let served = std::thread::spawn(move || {
        let summons: Summons = serde_json::from_str(&summons).expect("the suite wrote it");
        die_with_parent();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
        runtime.block_on(serve(&*subject, summons));
    });
    Some(if served.join().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A stopped process does not notice that its orders ended.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("Linux has known this for long");
}

async fn serve(subject: &dyn Subject, summons: Summons) {
    let backend = subject.connect(&summons.url).await.expect("the store takes a connection");
    let log = Arc::new(
        Recorder::in_folder(backend.clock(), &summons.folder).expect("the case's folder is writable"),
    );
    let client = LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&log))));
    let canary = Canary::start();
    let mut holding = Holding {
        fenced: Register::fenced(&summons.folder, Arc::clone(&log)),
        unfenced: Register::unfenced(&summons.folder, Arc::clone(&log)),
        client,
        log,
        guard: None,
        read: None,
    };
    say(&Answer::Ready);
    let (orders, mut incoming) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            let order = serde_json::from_str::<Order>(&line).expect("the suite wrote it");
            if orders.send(order).is_err() {
                return;
            }
        }
    });
    while let Some(order) = incoming.recv().await {
        let over = matches!(order, Order::Shutdown);
        let answer =
            holding.obey(order).await.unwrap_or_else(|error| Answer::Failed { text: error.to_string() });
        if over {
            holding.log.record("", "", What::End { delay: nanos(canary.worst()) });
        }
        say(&answer);
        if over {
            return;
        }
    }
    // The suite is gone: leave as a crash would.
    std::process::exit(0);
}

fn say(answer: &Answer) {
    let mut line = serde_json::to_vec(answer).expect("plain data");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).expect("the suite listens");
}

struct Holding {
    client: LockClient,
    log: Arc<Recorder>,
    guard: Option<Tracked>,
    fenced: Register,
    unfenced: Register,
    read: Option<(u64, u64)>,
}

impl Holding {
    async fn obey(&mut self, order: Order) -> Result<Answer, Error> {
        Ok(match order {
            Order::Lock { key, ttl_ms, wait_ms } => {
                let wait =
                    wait_ms.map_or(WaitPolicy::Forever, |ms| WaitPolicy::UpTo(Duration::from_millis(ms)));
                let options = LockOptions::default().ttl(Duration::from_millis(ttl_ms)).wait(wait);
                match self.client.lock_with(LockKey::from_escaped(&key)?, &options).await {
                    Ok(guard) => self.hold(guard),
                    Err(error) if error.is_wait_timeout() => Answer::Busy,
                    Err(error) => return Err(error),
                }
            }
            Order::Adopt { lease } => {
                let guard = self.client.adopt(lease).await?;
                self.hold(guard)
            }
            Order::Unlock => match self.guard.take() {
                Some(guard) => Answer::Unlocked { released: guard.unlock().await? == Release::Released },
                None => Answer::Unlocked { released: false },
            },
            Order::State => {
                let guard = self.held();
                let valid = guard.is_valid();
                Answer::State { valid, lost: matches!(guard.state(), LockState::Lost(_)) }
            }
            Order::Read => {
                let read = (self.fenced.read(), self.unfenced.read());
                self.read = Some(read);
                Answer::Read { value: read.0 }
            }
            Order::Write => {
                let (fenced, unfenced) = self.read.take().expect("read before");
                let token = self.held().guard().token();
                let accepted = self.fenced.write(token, fenced + 1);
                self.unfenced.write(token, unfenced + 1);
                Answer::Wrote { fenced: accepted }
            }
            Order::Count { key, ttl_ms, rounds } => {
                let key = LockKey::from_escaped(&key)?;
                let options = LockOptions::default().ttl(Duration::from_millis(ttl_ms));
                for _ in 0..rounds {
                    let guard = Tracked::new(self.client.lock_with(&key, &options).await?, &self.log);
                    let read = (self.fenced.read(), self.unfenced.read());
                    tokio::task::yield_now().await;
                    let token = guard.guard().token();
                    self.fenced.write(token, read.0 + 1);
                    self.unfenced.write(token, read.1 + 1);
                    guard.unlock().await?;
                }
                Answer::Counted
            }
            Order::Churn { key, ttl_ms } => self.churn(&LockKey::from_escaped(&key)?, ttl_ms).await,
            Order::GiveAway => {
                let guard = self.guard.take().expect("locked before").into_guard();
                let (key, owner) = (guard.key().clone(), guard.owner());
                let lease: Lease = guard.into_lease();
                // From here on somebody else relies on it.
                self.log.record(key, owner, What::Valid { until: lease.valid_until.as_nanos() });
                Answer::Lease { lease }
            }
            Order::Shutdown => {
                let left = self.client.shutdown(Duration::from_secs(10)).await;
                Answer::ShutDown { unreleased: left.claims.len() }
            }
        })
    }

    async fn churn(&self, key: &LockKey, ttl_ms: u64) -> ! {
        let options = LockOptions::default().ttl(Duration::from_millis(ttl_ms));
        loop {
            let Ok(guard) = self.client.lock_with(key, &options).await else { continue };
            let guard = Tracked::new(guard, &self.log);
            let read = self.fenced.read();
            tokio::time::sleep(Duration::from_millis(2)).await;
            if guard.is_valid() {
                self.fenced.write(guard.guard().token(), read + 1);
            }
            let _ = guard.unlock().await;
        }
    }

    fn hold(&mut self, guard: LockGuard) -> Answer {
        let (owner, token) = (guard.owner(), guard.token());
        self.guard = Some(Tracked::new(guard, &self.log));
        Answer::Held { owner, token }
    }

    fn held(&self) -> &Tracked {
        self.guard.as_ref().expect("locked before")
    }
}
