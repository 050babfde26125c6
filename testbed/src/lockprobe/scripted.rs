//! A probe that does what it is told, seen from its parent.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::orders::{Answer, Order, Summons};
use super::resident::Resident;

/// How long an answer may take beyond what was ordered.
const PATIENCE: Duration = Duration::from_secs(60);

/// A probe process that takes orders. Dropped, it is killed.
#[derive(Debug)]
pub struct Scripted {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Scripted {
    /// Starts `program`, which calls [`lockprobe::main`](super::main), on the store at `url`, and returns when it has
    /// connected. Its history and its registers are in `folder`.
    ///
    /// # Panics
    /// If it can't be started, or can't connect.
    pub async fn start(program: std::process::Command, url: &str, folder: &Path) -> Self {
        let summons = Summons { url: url.to_owned(), folder: folder.to_owned() };
        let mut child = Command::from(program)
            .env(Summons::VARIABLE, serde_json::to_string(&summons).expect("plain data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the probe's program can be started");
        let orders = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut probe = Self { child, orders, answers };
        assert_eq!(probe.answer(PATIENCE).await, Answer::Ready);
        probe
    }

    /// Gives an order, and returns its answer.
    pub async fn ask(&mut self, order: &Order) -> Answer {
        self.send(order).await;
        let more = match order {
            Order::Lock { wait, .. } => Duration::from_millis(*wait),
            Order::Churn { within, .. } => Duration::from_millis(*within),
            _ => Duration::ZERO,
        };
        self.answer(PATIENCE + more).await
    }

    /// Gives an order, whose answer is fetched later. It also reaches a process that is stopped, once that goes on.
    pub async fn send(&mut self, order: &Order) {
        let mut line = serde_json::to_vec(order).expect("plain data");
        line.push(b'\n');
        self.orders.write_all(&line).await.expect("the probe lives; see its messages above");
        self.orders.flush().await.expect("the probe lives; see its messages above");
    }

    /// The next answer.
    ///
    /// # Panics
    /// If none comes within `limit`.
    pub async fn answer(&mut self, limit: Duration) -> Answer {
        let line = tokio::time::timeout(limit, self.answers.next_line()).await;
        let line = line.expect("a probe answers in time").expect("its output can be read");
        let line = line.expect("the probe lives; see its messages above");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("a probe must not print: `{line}`"))
    }

    /// Takes a lock, waiting at most so long; how long it took, and the token.
    ///
    /// # Panics
    /// If it does not get it.
    pub async fn lock(&mut self, key: &str, ttl: Duration, wait: Duration) -> (Duration, u64) {
        let began = Instant::now();
        match self.ask(&Self::lock_order(key, ttl, wait)).await {
            Answer::Held { token } => (began.elapsed(), token),
            other => panic!("a probe could not take `{key}` within {wait:?}: {other:?}"),
        }
    }

    /// The order to take a lock.
    #[must_use]
    pub fn lock_order(key: &str, ttl: Duration, wait: Duration) -> Order {
        Order::Lock { key: key.to_owned(), ttl: millis(ttl), wait: millis(wait) }
    }

    /// What its wall clock shows, in milliseconds since 1970.
    pub async fn wall_clock(&mut self) -> u64 {
        match self.ask(&Order::Clock).await {
            Answer::Clock { millis } => millis,
            other => panic!("{other:?}"),
        }
    }

    /// How much memory of the machine it takes.
    ///
    /// # Panics
    /// If the system does not say.
    #[must_use]
    pub fn resident(&self) -> Resident {
        Resident::of(self.child.id().expect("the probe lives"))
    }

    /// Stops it with SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it with SIGKILL, and returns when it is gone. Its history ends where it was.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Lets it give everything back, and end.
    ///
    /// # Panics
    /// If it fails, or takes too long.
    pub async fn finish(self) {
        let Self { mut child, orders, .. } = self;
        drop(orders);
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        let status = ended.expect("a probe finishes in time").expect("a child can be waited for");
        assert!(status.success(), "a probe failed: {status}; see its messages above");
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        kill_process(pid.expect("the probe lives"), signal).expect("a child takes signals");
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a test's times are short")
}
