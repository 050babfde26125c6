//! Servers of a test's own, and the way from a list of async tests to a test binary.

mod polling;

use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use distlock_core::{Claim, Lease, LockBackend, LockKey, LockRequest, TryLock};
use distlock_redis::{RedisBackend, RedisConfig};
use libtest_mimic::{Arguments, Completion, Trial};
use redis::Value;
use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// The tests of a module, by name.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn tests() -> Vec<crate::support::Test> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), || Box::pin($name()))),*]
        }
    };
}
pub(crate) use polling::eventually;
pub(crate) use tests;

/// Runs tests that start servers. Without `redis-server` they show as ignored, or fail with
/// `CONFORMANCE_REQUIRE=1` in the environment.
pub(crate) fn main(tests: Vec<Test>) -> ExitCode {
    let is_there = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok();
    let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
    let trials = tests.into_iter().map(|(name, run)| {
        Trial::ignorable_test(name, move || {
            if !is_there && !is_required {
                return Ok(Completion::ignored_with("redis-server is not installed"));
            }
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(run());
            Ok(Completion::Completed)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// A server of its own, which ends with this value.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    options: Vec<String>,
    child: Child,
}

impl Server {
    pub(crate) async fn start(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let child = spawn(&folder.path().join("sock"), &options);
        let server = Self { folder, options, child };
        server.wait_until_up().await;
        server
    }

    /// The server's Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("sock")
    }

    pub(crate) fn client(&self) -> redis::Client {
        redis::Client::open(format!("redis+unix://{}?protocol=resp3", self.socket().display())).unwrap()
    }

    /// A connection to look behind the scenes.
    pub(crate) async fn raw(&self) -> MultiplexedConnection {
        // The driver's own limits are too short for a busy machine.
        let limit = Some(Duration::from_secs(20));
        let config =
            redis::AsyncConnectionConfig::new().set_connection_timeout(limit).set_response_timeout(limit);
        self.client().get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }

    pub(crate) fn config(&self) -> RedisConfig {
        RedisConfig::new(self.socket().display().to_string())
    }

    pub(crate) async fn backend(&self) -> RedisBackend {
        RedisBackend::connect(self.config()).await.unwrap()
    }

    pub(crate) fn pause(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    pub(crate) fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) async fn start_again(&mut self) {
        self.child = spawn(&self.socket(), &self.options);
        self.wait_until_up().await;
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    async fn wait_until_up(&self) {
        eventually("the server is up", async || {
            match self.client().get_multiplexed_async_connection().await {
                Ok(mut raw) => match redis::cmd("PING").exec_async(&mut raw).await {
                    // One that wants a password is up, too.
                    Ok(()) => true,
                    Err(error) => error.code() == Some("NOAUTH"),
                },
                Err(error) => error.code() == Some("NOAUTH"),
            }
        })
        .await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(socket: &std::path::Path, options: &[String]) -> Child {
    let folder = socket.parent().unwrap();
    Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .arg(socket)
        .arg("--dir")
        .arg(folder)
        .args(options)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

pub(crate) fn key(name: &str) -> LockKey {
    LockKey::new(name).unwrap()
}

pub(crate) fn request(name: &str, ttl: Duration) -> LockRequest {
    LockRequest::new(Claim::mint(key(name)), ttl)
}

pub(crate) async fn take(backend: &RedisBackend, request: &LockRequest) -> Lease {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("{busy:?}"),
    }
}

pub(crate) async fn busy(backend: &RedisBackend, request: &LockRequest) -> distlock_core::Busy {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Busy(busy) => busy,
        TryLock::Acquired(lease) => panic!("{lease:?}"),
    }
}

/// Runs a command given as one line.
pub(crate) async fn run(raw: &mut MultiplexedConnection, line: &str) -> Value {
    let mut words = line.split_whitespace();
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    command.query_async(raw).await.unwrap()
}

/// Runs a command given as one line, whose answer is a number.
pub(crate) async fn number(raw: &mut MultiplexedConnection, line: &str) -> i64 {
    redis::from_redis_value(run(raw, line).await).unwrap()
}
