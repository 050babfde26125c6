//! Servers of a test's own, and the way from a list of async tests to a test binary.

mod polling;

use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use distlock_conformance::free_port;
use distlock_core::{Busy, Claim, Lease, LockBackend, LockKey, LockRequest, TryLock};
use distlock_etcd::etcd_client::{Client, Error, GetOptions, KeyValue};
use distlock_etcd::{EtcdBackend, EtcdConfig};
use libtest_mimic::{Arguments, Completion, Trial};
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

/// Elections this fast let the server count leases from 1 s on.
pub(crate) const FAST: &[&str] = &["--heartbeat-interval", "50", "--election-timeout", "500"];

/// Runs tests that start servers. Without `etcd` they show as ignored, or fail with
/// `CONFORMANCE_REQUIRE=1` in the environment.
pub(crate) fn main(tests: Vec<Test>) -> ExitCode {
    let is_there = Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_ok();
    let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
    let trials = tests.into_iter().map(|(name, run)| {
        Trial::ignorable_test(name, move || {
            if !is_there && !is_required {
                return Ok(Completion::ignored_with("etcd is not installed"));
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
    port: u16,
    peer_port: u16,
    scheme: &'static str,
    child: Child,
}

impl Server {
    /// A server with the default elections, whose leases are of 2 s at least.
    pub(crate) async fn start(options: &[&str]) -> Self {
        let server = Self::spawned("http", options);
        eventually("the server is up", async || is_up(server.raw().await).await).await;
        server
    }

    /// A server that speaks TLS, of which only its port tells that it is up.
    pub(crate) async fn start_encrypted(options: &[&str]) -> Self {
        let server = Self::spawned("https", options);
        eventually("the server is up", async || {
            tokio::net::TcpStream::connect(server.address()).await.is_ok()
        })
        .await;
        server
    }

    fn spawned(scheme: &'static str, options: &[&str]) -> Self {
        // In memory where that can be had, as for all test servers: each write waits for the disk, which others use too.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let (port, peer_port) = (free_port(), free_port());
        let child = spawn(folder.path(), port, peer_port, scheme, &options);
        Self { folder, options, port, peer_port, scheme, child }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// A connection to look behind the scenes.
    pub(crate) async fn raw(&self) -> Client {
        Client::connect([self.address().to_string()], None).await.unwrap()
    }

    pub(crate) fn config(&self) -> EtcdConfig {
        EtcdConfig::new([self.address().to_string()])
    }

    pub(crate) async fn backend(&self) -> EtcdBackend {
        EtcdBackend::connect(self.config()).await.unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) async fn start_again(&mut self) {
        let _ = self.child.wait();
        self.child = spawn(self.folder.path(), self.port, self.peer_port, self.scheme, &self.options);
        eventually("the server is up again", async || is_up(self.raw().await).await).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn is_up(mut raw: Client) -> bool {
    match raw.get("up", None).await {
        Ok(_) => true,
        // One that wants a password is up, too.
        Err(Error::GRpcStatus(status)) => status.message().contains("user name is empty"),
        Err(_) => false,
    }
}

fn spawn(folder: &std::path::Path, port: u16, peer_port: u16, scheme: &str, options: &[String]) -> Child {
    let (own, peer) = (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    Command::new("etcd")
        .args(["--name", "one", "--log-level", "error", "--unsafe-no-fsync"])
        .arg("--data-dir")
        .arg(folder.join("data"))
        .args(["--listen-client-urls", &own, "--advertise-client-urls", &own])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("one={peer}")])
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd is installed")
}

pub(crate) fn key(name: &str) -> LockKey {
    LockKey::new(name).unwrap()
}

pub(crate) fn request(name: &str, ttl: Duration) -> LockRequest {
    LockRequest::new(Claim::mint(key(name)), ttl)
}

pub(crate) fn queued(name: &str, ttl: Duration) -> LockRequest {
    request(name, ttl).queue(true)
}

pub(crate) async fn take(backend: &EtcdBackend, request: &LockRequest) -> Lease {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("{busy:?}"),
    }
}

pub(crate) async fn busy(backend: &EtcdBackend, request: &LockRequest) -> Busy {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Busy(busy) => busy,
        TryLock::Acquired(lease) => panic!("{lease:?}"),
    }
}

/// The records of a lock in the default namespace in the order of their creation: name, value, lease.
pub(crate) async fn records(raw: &mut Client, name: &str) -> Vec<(Vec<u8>, String, i64)> {
    let queue = [b"distlock/", name.as_bytes(), b"\0/"].concat();
    let found = raw.get(queue, Some(GetOptions::new().with_prefix())).await.unwrap();
    let mut records: Vec<_> = found.kvs().iter().collect();
    records.sort_by_key(|record| record.create_revision());
    records.into_iter().map(of).collect()
}

fn of(record: &KeyValue) -> (Vec<u8>, String, i64) {
    (record.key().to_vec(), String::from_utf8_lossy(record.value()).into_owned(), record.lease())
}
