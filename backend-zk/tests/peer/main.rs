//! Curator's lock and ours on one path exclude each other, both ways. Optional: it takes the packages
//! `libcurator-recipes-java` and `openjdk-17-jdk-headless` of Debian and its like.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    dead_code,
    reason = "tests stop at the first surprise, and wait with deadlines; the support serves several programs"
)]

#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use distlock_core::{LockBackend, LockOptions, Queueing, WaitPolicy};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use support::{backend, client, folder, refused, request, shared, take, tests};

/// What the other program needs, where Debian puts it.
const JARS: [&str; 7] = [
    "curator-recipes.jar",
    "curator-framework.jar",
    "curator-client.jar",
    "zookeeper.jar",
    "guava.jar",
    "slf4j-api.jar",
    "slf4j-simple.jar",
];
const JAVA: &str = "/usr/share/java";

tests! {
    each_waits_for_the_other,
    a_dead_peer_is_succeeded_when_its_session_ends,
    many_turns_of_both_overlap_nowhere,
}

fn main() -> std::process::ExitCode {
    let is_there =
        JARS.iter().all(|jar| Path::new(JAVA).join(jar).exists()) && Path::new("/usr/bin/javac").exists();
    if !is_there {
        eprintln!("left out: Curator is not installed (libcurator-recipes-java openjdk-17-jdk-headless)");
        return std::process::ExitCode::SUCCESS;
    }
    support::main(tests(), true)
}

/// The program with Curator's lock.
struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    async fn start(lock: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer/Peer.java");
        let jars: Vec<_> = JARS.iter().map(|jar| format!("{JAVA}/{jar}")).collect();
        let mut child = Command::new("java")
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", &jars.join(":")])
            .arg(source)
            .args([shared(), lock])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut peer = Self { child, orders, answers: BufReader::new(answers).lines() };
        assert_eq!(peer.answer().await, "ready");
        peer
    }

    async fn ask(&mut self, order: &str) -> String {
        self.send(order).await;
        self.answer().await
    }

    async fn send(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
        self.orders.flush().await.unwrap();
    }

    async fn answer(&mut self) -> String {
        let answer = tokio::time::timeout(Duration::from_secs(60), self.answers.next_line());
        answer.await.expect("the peer answers").unwrap().expect("the peer lives")
    }
}

const LONG: Duration = Duration::from_secs(5);

async fn each_waits_for_the_other() {
    let folder = folder();
    let (ours, waiting) = (backend(&folder).await, client(&folder).await);
    let mut peer = Peer::start(&format!("{folder}/k")).await;
    // Ours first.
    let held = request("k", LONG);
    take(&*ours, &held).await;
    assert_eq!(peer.ask("lock 300").await, "busy");
    peer.send("lock 30000").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    ours.unlock(&held.claim).await.unwrap();
    assert_eq!(peer.answer().await, "held");
    // The peer's first.
    refused(&*ours, &request("k", LONG)).await;
    let options = LockOptions::default().wait(WaitPolicy::UpTo(Duration::from_millis(300)));
    let error = waiting.lock_with("k", &options).await.unwrap_err();
    assert!(error.is_wait_timeout(), "{error}");
    let waiter = tokio::spawn(async move { waiting.lock("k").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(peer.ask("unlock").await, "free");
    let guard = tokio::time::timeout(Duration::from_secs(30), waiter).await.unwrap().unwrap().unwrap();
    assert_eq!(peer.ask("lock 300").await, "busy");
    guard.unlock().await.unwrap();
    assert_eq!(peer.ask("lock 10000").await, "held");
}

async fn a_dead_peer_is_succeeded_when_its_session_ends() {
    let folder = folder();
    let ours = client(&folder).await;
    let mut peer = Peer::start(&format!("{folder}/k")).await;
    assert_eq!(peer.ask("lock 10000").await, "held");
    let killed = std::time::Instant::now();
    peer.child.kill().await.unwrap();
    let options =
        LockOptions::default().ttl(Duration::from_secs(1)).wait(WaitPolicy::UpTo(Duration::from_secs(50)));
    ours.lock_with("k", &options).await.unwrap().unlock().await.unwrap();
    // It has no ttl, so nobody takes it over before the servers end its session of 10 s.
    assert!(killed.elapsed() > LONG, "after {:?}", killed.elapsed());
}

async fn many_turns_of_both_overlap_nowhere() {
    let folder = folder();
    let lock = format!("{folder}/k");
    let inside = Arc::new(AtomicUsize::new(0));
    let mut turns = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (ours, counter) = (client(&folder).await, Arc::clone(&inside));
        turns.spawn(async move {
            let options = LockOptions::default().queue(Queueing::Strict);
            for _ in 0..30 {
                let guard = ours.lock_with("k", &options).await.unwrap();
                assert_eq!(counter.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                tokio::time::sleep(Duration::from_millis(2)).await;
                counter.fetch_sub(1, Ordering::SeqCst);
                guard.unlock().await.unwrap();
            }
        });
        let (mut peer, counter) = (Peer::start(&lock).await, Arc::clone(&inside));
        turns.spawn(async move {
            for _ in 0..30 {
                assert_eq!(peer.ask("lock 60000").await, "held");
                assert_eq!(counter.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                tokio::time::sleep(Duration::from_millis(2)).await;
                counter.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(peer.ask("unlock").await, "free");
            }
        });
    }
    while let Some(turn) = turns.join_next().await {
        turn.unwrap();
    }
}
