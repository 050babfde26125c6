//! A program that contends through other libraries, and how it is spoken to: a line of JSON each way.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use distlock::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Longer than opening connections and finishing a round take.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that are known, by name, with the scheme of their store.
pub(super) const KNOWN: [(&str, &str); 4] = [
    ("rslock", "redis"),
    ("distributed-lock", "redis"),
    ("sqlx advisory lock", "postgres"),
    ("etcd lock service", "etcd"),
];

/// What a program of peers says about each of them, in an array on its first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message: the program that writes it makes it")]
pub struct PeerAnswer {
    /// Its name.
    pub name: String,
    /// The scheme of its store.
    pub scheme: String,
    /// Schemes of other stores on which it can contend too.
    #[serde(default)]
    pub also_on: Vec<String>,
    /// What it does otherwise than a lock with owner, expiry and token that is handed on in order.
    pub differs: String,
    /// Why it may be faster where nobody else wants the lock; empty if it never was.
    #[serde(default)]
    pub faster_alone: String,
    /// Why it may be faster where several want the lock; empty if it never was.
    #[serde(default)]
    pub faster_contended: String,
}

impl PeerAnswer {
    pub(super) fn is_for(&self, scheme: &str) -> bool {
        self.scheme == scheme || self.also_on.iter().any(|other| other == scheme)
    }
}

/// What it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message: the program that reads it takes it apart")]
pub struct PeerOrder {
    /// Which peer.
    pub name: String,
    /// Where the store is. It may hold a password, so it is not among the arguments.
    pub url: String,
    /// How many tasks contend.
    pub contenders: usize,
    /// Whether for one lock, or each for a lock of its own.
    pub one_key: bool,
    /// For how long.
    pub millis: u64,
}

/// What it answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message: the program that writes it makes it")]
pub struct PeerRound {
    /// Pairs of lock and unlock.
    pub operations: u64,
    /// How long they took together.
    pub elapsed_us: f64,
    /// Median time of a pair.
    pub p50_us: f64,
    /// The time that 99 % of the pairs did not exceed.
    pub p99_us: f64,
    /// Why there are no figures.
    pub error: Option<String>,
}

/// The program, running; killed when dropped.
#[derive(Debug)]
pub(super) struct Peers {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    pub(super) there: Vec<PeerAnswer>,
}

impl Peers {
    pub(super) async fn start(program: &Path) -> Result<Self> {
        let failed = |error| broken(&format!("start {}", program.display()), error);
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::new(ErrorKind::Other, "the peers have no pipes"));
        };
        let output = BufReader::new(output).lines();
        let mut peers = Self { _process: process, input, output, there: Vec::new() };
        peers.there = peers.hear().await?;
        Ok(peers)
    }

    pub(super) async fn round(&mut self, order: &PeerOrder) -> Result<PeerRound> {
        let mut line = serde_json::to_vec(order).map_err(|error| broken("talk to the peers", error))?;
        line.push(b'\n');
        self.input.write_all(&line).await.map_err(|error| broken("talk to the peers", error))?;
        self.hear().await
    }

    async fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        match timeout(PATIENCE, self.output.next_line()).await {
            Ok(Ok(Some(line))) => {
                serde_json::from_str(&line).map_err(|error| broken("understand the peers", error))
            }
            Ok(Ok(None)) => Err(Error::new(ErrorKind::Other, "the program of the peers ended")),
            Ok(Err(error)) => Err(broken("listen to the peers", error)),
            Err(_) => Err(Error::new(ErrorKind::Other, format!("the peers were silent for {PATIENCE:?}"))),
        }
    }
}

fn broken(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Other, format!("can't {what}")).caused_by(error)
}
