//! The conformance suite on the Redis stores that the environment names.
//!
//! `LOCK_TEST_REDIS_URL` names a server. `CONFORMANCE_STORE=redis` picks one store out of those that
//! are configured; without it, each of them is tested in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, ExitCode};
use std::sync::Arc;

use distlock_conformance::{FaultAbilities, Faults, Subject};
use distlock_core::{BackendInfo, LockBackend, LockKey, Result, StoreUrl};
use distlock_redis::{RedisBackend, Topology};

/// Which store to test.
const STORE: &str = "CONFORMANCE_STORE";

/// A store that can be tested.
#[derive(Clone)]
struct Redis {
    name: &'static str,
    /// Where its URL stands.
    variable: &'static str,
    topology: Topology,
    queue: bool,
}

fn stores() -> Vec<Redis> {
    let redis =
        Redis { name: "redis", variable: "LOCK_TEST_REDIS_URL", topology: Topology::Single, queue: false };
    vec![redis.clone(), Redis { name: "redis-queue", queue: true, ..redis }]
}

#[async_trait::async_trait]
impl Subject for Redis {
    fn info(&self) -> BackendInfo {
        if self.queue {
            RedisBackend::describe_queue(&self.topology)
        } else {
            RedisBackend::describe(&self.topology)
        }
    }
    fn url(&self) -> String {
        let url = std::env::var(self.variable).unwrap_or_default();
        match (self.queue, url.contains('?')) {
            (false, _) => url,
            (true, false) => url + "?queue=true",
            (true, true) => url + "&queue=true",
        }
    }
    fn available(&self) -> std::result::Result<(), String> {
        match std::env::var_os(self.variable) {
            Some(_) => Ok(()),
            None => Err(format!(
                "start a server (`redis-server --port 6379`) and name it: {}=redis://127.0.0.1:6379",
                self.variable
            )),
        }
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(RedisBackend::from_url(&mut StoreUrl::parse(url)?).await?))
    }
}

#[async_trait::async_trait]
impl Faults for Redis {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE.expire_now().prune()
    }

    async fn expire_now(&self, key: &LockKey) {
        const EXPIRE: &str = "if redis.call('HEXISTS', KEYS[1], 'owner') == 1 then \
                              redis.call('HSET', KEYS[1], 'deadline', '1') end";
        self.eval(EXPIRE, &[b"distlock:lock:", key.as_bytes()].concat()).await;
    }

    async fn prune(&self) {
        const PRUNE: &str =
            "if redis.call('HEXISTS', KEYS[1], 'owner') == 0 then redis.call('DEL', KEYS[1]) end";
        let mut raw = self.raw().await;
        let keys: Vec<Vec<u8>> =
            redis::cmd("KEYS").arg("distlock:lock:*").query_async(&mut raw).await.unwrap();
        for key in keys {
            self.eval(PRUNE, &key).await;
        }
    }
}

impl Redis {
    /// A connection past the backend.
    async fn raw(&self) -> redis::aio::MultiplexedConnection {
        let client = redis::Client::open(std::env::var(self.variable).unwrap()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    async fn eval(&self, script: &str, key: &[u8]) {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1).arg(key);
        command.exec_async(&mut self.raw().await).await.unwrap();
    }
}

fn main() -> ExitCode {
    let wanted = std::env::var(STORE).ok();
    let mut chosen = stores();
    match &wanted {
        Some(wanted) => chosen.retain(|store| store.name == wanted),
        // A store that is not configured is passed over, unless none is.
        None if chosen.iter().any(|store| std::env::var_os(store.variable).is_some()) => {
            chosen.retain(|store| std::env::var_os(store.variable).is_some());
        }
        None => chosen.truncate(1),
    }
    match chosen.pop() {
        None => {
            eprintln!("{STORE}={} names no store of this backend", wanted.unwrap_or_default());
            ExitCode::FAILURE
        }
        Some(only) if chosen.is_empty() => distlock_conformance::main(only),
        Some(last) => {
            chosen.push(last);
            each(&chosen)
        }
    }
}

/// Runs the suite on each store in turn, each in a process of its own.
fn each(stores: &[Redis]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for store in stores {
        let program = std::env::current_exe();
        let arguments = std::env::args_os().skip(1);
        let status =
            program.and_then(|program| Command::new(program).args(arguments).env(STORE, store.name).status());
        if !status.is_ok_and(|status| status.success()) {
            code = ExitCode::FAILURE;
        }
    }
    code
}
