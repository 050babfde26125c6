//! The conformance suite on a majority of the independent servers that `LOCK_TEST_REDLOCK_URL` names.
//!
//! `CONFORMANCE_STORE=redlock` tests all five, `redlock3` three of them, `redlock-down` five of which two are
//! down, and `redlock-frozen` five of which two take connections and never answer; without it, each is tested in a
//! process of its own. With frozen servers every connecting client waits for them once, which takes two minutes in all.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::TcpListener;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use distlock_conformance::{FaultAbilities, Faults, Subject};
use distlock_core::{BackendInfo, LockBackend, LockKey, Result, StoreUrl};
use distlock_redis::{RedlockBackend, RedlockOptions};

/// Which servers to test.
const STORE: &str = "CONFORMANCE_STORE";
/// Where their URL stands.
const VARIABLE: &str = "LOCK_TEST_REDLOCK_URL";

/// All of them.
const STORES: [&str; 4] = ["redlock", "redlock3", "redlock-down", "redlock-frozen"];

/// A quorum to test.
struct Redlock {
    url: String,
    /// They take connections as long as the suite runs.
    _silent: Vec<TcpListener>,
}

impl Redlock {
    fn new(store: &str) -> Self {
        let mut hosts = hosts();
        let mut silent = Vec::new();
        match store {
            "redlock3" => hosts.truncate(3),
            "redlock-down" => hosts.iter_mut().skip(3).for_each(|host| *host = closed()),
            "redlock-frozen" => {
                for host in hosts.iter_mut().skip(3) {
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    *host = listener.local_addr().unwrap().to_string();
                    silent.push(listener);
                }
            }
            _ => {}
        }
        // On a busy machine no server is as quick as in a data centre, and with two of five silent each of the
        // others decides.
        let limits = "node_timeout=8s&connect_timeout=5s&response_timeout=8s";
        let url = format!("redlock://{}?prefix={store}:&{limits}", hosts.join(","));
        Self { url, _silent: silent }
    }
}

fn hosts() -> Vec<String> {
    let url = std::env::var(VARIABLE).unwrap_or_default();
    let hosts = StoreUrl::parse(&url).map(|url| url.hosts).unwrap_or_default();
    hosts.iter().map(|host| host.with_default_port(6379)).collect()
}

/// An address that nobody listens at. Each gets another one, since all come from the system in turn.
fn closed() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[async_trait::async_trait]
impl Subject for Redlock {
    fn info(&self) -> BackendInfo {
        RedlockBackend::describe(&RedlockOptions::default())
    }
    fn url(&self) -> String {
        self.url.clone()
    }
    fn available(&self) -> std::result::Result<(), String> {
        match hosts().len() {
            5 => Ok(()),
            _ => Err(format!("start servers (`dev/services.sh up redlock`) and name all five by {VARIABLE}")),
        }
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(RedlockBackend::from_url(&mut StoreUrl::parse(url)?).await?))
    }
}

#[async_trait::async_trait]
impl Faults for Redlock {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE.expire_now().prune()
    }

    async fn expire_now(&self, key: &LockKey) {
        const EXPIRE: &str = "if redis.call('HEXISTS', KEYS[1], 'owner') == 1 then \
                              redis.call('HSET', KEYS[1], 'deadline', '1') end";
        let end = [b"lock:", key.as_bytes()].concat();
        on_records(EXPIRE, |name| name.ends_with(&end)).await;
    }

    async fn prune(&self) {
        const PRUNE: &str =
            "if redis.call('HEXISTS', KEYS[1], 'owner') == 0 then redis.call('DEL', KEYS[1]) end";
        on_records(PRUNE, |_| true).await;
    }
}

/// Runs a script on records of all servers.
async fn on_records(script: &str, is_meant: impl Fn(&[u8]) -> bool + Send + Sync) {
    for host in hosts() {
        let client = redis::Client::open(format!("redis://{host}")).unwrap();
        let mut raw = client.get_multiplexed_async_connection().await.unwrap();
        let names: Vec<Vec<u8>> =
            redis::cmd("KEYS").arg("redlock*lock:*").query_async(&mut raw).await.unwrap();
        for name in names.iter().filter(|name| is_meant(name)) {
            redis::cmd("EVAL").arg(script).arg(1).arg(name).exec_async(&mut raw).await.unwrap();
        }
    }
}

fn main() -> ExitCode {
    match std::env::var(STORE).ok() {
        Some(store) if STORES.contains(&store.as_str()) => distlock_conformance::main(Redlock::new(&store)),
        Some(store) => {
            eprintln!("{STORE}={store} names none of {STORES:?}");
            ExitCode::FAILURE
        }
        None if hosts().is_empty() => distlock_conformance::main(Redlock::new("redlock")),
        None => each(),
    }
}

/// Runs the suite on each store in turn, each in a process of its own.
fn each() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for store in STORES {
        let program = std::env::current_exe();
        let arguments = std::env::args_os().skip(1);
        let status =
            program.and_then(|program| Command::new(program).args(arguments).env(STORE, store).status());
        if !status.is_ok_and(|status| status.success()) {
            code = ExitCode::FAILURE;
        }
    }
    code
}
