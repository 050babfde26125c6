//! A program of its own that waits for locks, and can be killed.

use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{LockBackend, LockClient, LockOptions, Queueing};
use distlock_redis::{RedisBackend, RedisConfig};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::rig::LONG;
use crate::support::Server;

/// Makes this program one that takes orders; the socket of its server.
const VARIABLE: &str = "QUEUE_TEST_SOCKET";
/// Where each one that is served writes its name, while it holds the lock.
pub(crate) const SERVED: &str = "served";

/// A program that takes orders. Dropped, it is killed.
///
/// - `wait NAME TTL`: one waiter comes, strictly in order, and answers nothing. It holds the lock for
///   ever if its name is 0.
/// - `herd NAME WAITERS TURNS auto|strict|never`: so many waiters take the lock so many times each;
///   `never` in a store without a queue. Answers `done COMMANDS` with how many commands that took.
/// - `contend NAME TOTAL`: one contender takes the lock over and over, without a queue, until so many
///   were served in all programs. Answers `done`.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) async fn start(server: &Server) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(VARIABLE, server.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, orders, answers }
    }

    pub(crate) async fn order(&mut self, line: &str) {
        self.orders.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        self.orders.flush().await.unwrap();
    }

    pub(crate) async fn answer(&mut self) -> String {
        let answer = tokio::time::timeout(Duration::from_secs(180), self.answers.next_line());
        answer.await.expect("it answers").unwrap().expect("it lives")
    }

    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Takes orders if this program was started for it.
pub(crate) fn serve_if_asked() -> Option<ExitCode> {
    let socket = std::env::var(VARIABLE).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(serve(&socket));
    Some(ExitCode::SUCCESS)
}

async fn serve(socket: &str) {
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let mut one = None;
    // They end with the program that gives them.
    while let Some(line) = orders.next_line().await.unwrap() {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["wait", name, ttl] => {
                if one.is_none() {
                    one = Some(LockClient::new(backend(socket, true).await));
                }
                let ttl = Duration::from_millis(ttl.parse().unwrap());
                let (client, socket, name) = (one.clone().unwrap(), socket.to_owned(), (*name).to_owned());
                tokio::spawn(async move {
                    let options = LockOptions::default().ttl(ttl).queue(Queueing::Strict);
                    let guard = client.lock_with("k", &options).await.unwrap();
                    if name == "0" {
                        return std::future::pending().await;
                    }
                    served(&mut raw(&socket).await, &name).await;
                    guard.unlock().await.unwrap();
                });
            }
            ["herd", name, waiters, turns, kind] => {
                let sent = herd(socket, name, waiters.parse().unwrap(), turns.parse().unwrap(), kind).await;
                #[expect(clippy::print_stdout, reason = "its answers go there")]
                {
                    println!("done {sent}");
                }
            }
            ["contend", name, total] => {
                contend(socket, name, total.parse().unwrap()).await;
                #[expect(clippy::print_stdout, reason = "its answers go there")]
                {
                    println!("done");
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn backend(socket: &str, queue: bool) -> Arc<RedisBackend> {
    Arc::new(RedisBackend::connect(RedisConfig::new(socket).queue(queue)).await.unwrap())
}

async fn raw(socket: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(format!("redis+unix://{socket}")).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// Writes a name down; how many there are.
async fn served(raw: &mut redis::aio::MultiplexedConnection, name: &str) -> usize {
    redis::cmd("RPUSH").arg(SERVED).arg(name).query_async(raw).await.unwrap()
}

async fn contend(socket: &str, name: &str, total: usize) {
    let (client, mut raw) = (LockClient::new(backend(socket, false).await), raw(socket).await);
    let mut is_over = false;
    while !is_over {
        let guard = client.lock_with("k", &LockOptions::default().ttl(LONG)).await.unwrap();
        is_over = served(&mut raw, name).await >= total;
        guard.unlock().await.unwrap();
    }
}

async fn herd(socket: &str, name: &str, waiters: usize, turns: usize, kind: &str) -> u64 {
    let backend = backend(socket, kind != "never").await;
    let client = LockClient::new(Arc::<RedisBackend>::clone(&backend));
    let raw = raw(socket).await;
    let queue = if kind == "strict" { Queueing::Strict } else { Queueing::Auto };
    let options = LockOptions::default().ttl(LONG).queue(queue);
    let begun = backend.commands_sent().unwrap();
    let herd: Vec<_> = (0..waiters)
        .map(|n| {
            let (client, mut raw, options) = (client.clone(), raw.clone(), options.clone());
            let name = format!("{name}.{n}");
            tokio::spawn(async move {
                for _ in 0..turns {
                    let guard = client.lock_with("k", &options).await.unwrap();
                    served(&mut raw, &name).await;
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    for waiter in herd {
        waiter.await.unwrap();
    }
    backend.commands_sent().unwrap() - begun
}
