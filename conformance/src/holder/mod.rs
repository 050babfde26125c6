//! Holders in processes of their own, which can be killed and stopped.

mod orders;
mod serve;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use distlock_core::{FencingToken, LockKey};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub(crate) use orders::{Answer, Order};
use orders::{Summons, VARIABLE};
pub(crate) use serve::serve_if_asked;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that takes orders. It is this same program, started again; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Holder {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// Starts a process that reaches the store at `url` and keeps its files in `folder`.
    pub(crate) async fn start(url: String, folder: &Path) -> Self {
        let summons = Summons { url, folder: folder.to_owned() };
        let program = std::env::current_exe().expect("a program knows where it is");
        let mut child = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(VARIABLE, serde_json::to_string(&summons).expect("plain data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("this program can be started again");
        let orders = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut holder = Self { child, orders, answers };
        match holder.answer().await {
            Answer::Ready => holder,
            other => panic!("a holder process began with {other:?}; see its messages above"),
        }
    }

    /// Sends an order without waiting for the answer, which has to be fetched later. It also reaches
    /// a process that is stopped, once that goes on.
    pub(crate) async fn send(&mut self, order: &Order) {
        let mut line = serde_json::to_vec(order).expect("plain data");
        line.push(b'\n');
        self.orders.write_all(&line).await.expect("the holder process lives");
        self.orders.flush().await.expect("the holder process lives");
    }

    /// Fetches the next answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        let line = tokio::time::timeout(PATIENCE, self.answers.next_line())
            .await
            .expect("the holder process answers")
            .expect("its output can be read")
            .expect("the holder process lives; see its messages above");
        serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("a program under test must not print before it calls the suite: `{line}`")
        })
    }

    /// Sends an order and fetches its answer.
    pub(crate) async fn ask(&mut self, order: &Order) -> Answer {
        self.send(order).await;
        self.answer().await
    }

    /// Takes `key`, waiting for ever.
    pub(crate) async fn lock(&mut self, key: &LockKey, ttl: Duration) -> FencingToken {
        match self.ask(&Self::lock_order(key, ttl, None)).await {
            Answer::Held { token, .. } => token,
            other => panic!("a holder process could not take `{key}`: {other:?}"),
        }
    }

    pub(crate) fn lock_order(key: &LockKey, ttl: Duration, wait: Option<Duration>) -> Order {
        let millis =
            |duration: Duration| u64::try_from(duration.as_millis()).expect("a case's times are short");
        Order::Lock { key: key.to_string(), ttl_ms: millis(ttl), wait_ms: wait.map(millis) }
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Stops the process with SIGSTOP.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a stopped process go on.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for the process to end by itself.
    pub(crate) async fn ended(mut self) {
        let status =
            tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the holder process ends");
        assert!(status.expect("a child can be waited for").success(), "a holder process failed");
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        kill_process(pid.expect("the holder process lives"), signal).expect("a child takes signals");
    }
}
