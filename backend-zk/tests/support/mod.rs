//! Servers for tests, and the way from a list of async tests to a test binary.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use distlock_conformance::Proxy;
use distlock_core::{Claim, Lease, LockBackend, LockClient, LockKey, LockRequest, StoreUrl, TryLock};
use distlock_testbed::{Partition, ServiceSet};
use distlock_zk::ZkBackend;
use distlock_zk::zookeeper_client::Client;
use libtest_mimic::{Arguments, Completion, Trial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Name, whether it needs a network of its own, what to do.
pub(crate) type Test = (&'static str, bool, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// The tests of a module, by name.
macro_rules! tests {
    (network: $($name:ident),* $(,)?) => { crate::support::tests! { @true $($name),* } };
    (@$network:literal $($name:ident),*) => {
        pub(crate) fn tests() -> Vec<crate::support::Test> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), $network, || Box::pin($name()))),*]
        }
    };
    ($($name:ident),* $(,)?) => { crate::support::tests! { @false $($name),* } };
}
pub(crate) use tests;

/// The address of the server that the tests share.
static SHARED: OnceLock<String> = OnceLock::new();

/// Runs tests. Those that hurt nobody share one server. Without what the servers need they show as
/// ignored, or fail with `CONFORMANCE_REQUIRE=1` in the environment.
pub(crate) fn main(tests: Vec<Test>, shares: bool) -> ExitCode {
    let arguments = Arguments::from_args();
    let outer = runtime();
    let missing = outer.block_on(ServiceSet::available(&["zk", "zk3"])).err();
    let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
    let starts = shares && !arguments.list && (missing.is_none() || is_required);
    let set = starts.then(|| outer.block_on(ServiceSet::up(&["zk"])).unwrap());
    if let Some(set) = &set {
        SHARED.set(set.server("zk").address().to_string()).unwrap();
    }
    let trials = tests.into_iter().map(|(name, needs_network, run)| {
        let missing = missing.clone();
        Trial::ignorable_test(name, move || {
            if let Some(missing) = missing.filter(|_| !is_required) {
                return Ok(Completion::ignored_with(missing));
            }
            if let Some(missing) = needs_network.then(Partition::available).and_then(Result::err) {
                return Ok(Completion::ignored_with(missing));
            }
            runtime().block_on(run());
            Ok(Completion::Completed)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if let Some(set) = set {
        outer.block_on(set.down());
    }
    conclusion.exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The server that the tests share, as `host:port`.
pub(crate) fn shared() -> &'static str {
    SHARED.get().unwrap()
}

/// A folder of a test's own on the shared server.
pub(crate) fn folder() -> String {
    format!("/test-{:016x}", fastrand::u64(..))
}

pub(crate) async fn connect(url: &str) -> Arc<ZkBackend> {
    Arc::new(ZkBackend::from_url(&mut StoreUrl::parse(url).unwrap()).await.unwrap())
}

/// A backend on a folder of the shared server.
pub(crate) async fn backend(folder: &str) -> Arc<ZkBackend> {
    connect(&format!("zk://{}{folder}", shared())).await
}

pub(crate) async fn client(folder: &str) -> LockClient {
    LockClient::new(backend(folder).await)
}

/// A proxy in front of a server, and the URL that leads through it.
pub(crate) fn behind_proxy(address: &str, folder: &str, options: &str) -> (Proxy, String) {
    let proxy = Proxy::start(address).unwrap();
    let url = format!("zk://{}{folder}?{options}", proxy.address());
    (proxy, url)
}

/// A client of the shared server past the backend.
pub(crate) async fn raw() -> Client {
    Client::connect(shared()).await.unwrap()
}

pub(crate) fn key(name: &str) -> LockKey {
    LockKey::new(name).unwrap()
}

pub(crate) fn request(name: &str, ttl: Duration) -> LockRequest {
    LockRequest::new(Claim::mint(key(name)), ttl)
}

pub(crate) async fn take(backend: &dyn LockBackend, request: &LockRequest) -> Lease {
    match backend.try_lock(request).await.unwrap() {
        TryLock::Acquired(lease) => lease,
        TryLock::Busy(busy) => panic!("the lock is free, yet it is {busy:?}"),
    }
}

pub(crate) async fn refused(backend: &dyn LockBackend, request: &LockRequest) {
    let outcome = backend.try_lock(request).await.unwrap();
    assert!(matches!(outcome, TryLock::Busy(_)), "the lock is held, yet there is {outcome:?}");
}

/// Waits for a condition, for at most a minute.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a server says to a word of four letters.
pub(crate) async fn ask(address: &str, word: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(word.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
