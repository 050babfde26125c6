//! The conformance suite on the Redis stores that the environment names.
//!
//! `LOCK_TEST_REDIS_URL`, `LOCK_TEST_SENTINEL_URL` and `LOCK_TEST_CLUSTER_URL` name servers, and for newer
//! and older ones `LOCK_TEST_VALKEY_URL`, `LOCK_TEST_REDIS8_URL` and `LOCK_TEST_REDIS6_URL`.
//! `CONFORMANCE_STORE=redis`, `sentinel`, `cluster`, `valkey`, `redis8` or `redis6` picks one store out of those that
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
    let sentinel = Topology::Sentinel { master: "mymaster".to_owned() };
    let kinds = [
        (["redis", "redis-queue"], "LOCK_TEST_REDIS_URL", Topology::Single),
        (["valkey", "valkey-queue"], "LOCK_TEST_VALKEY_URL", Topology::Single),
        (["redis8", "redis8-queue"], "LOCK_TEST_REDIS8_URL", Topology::Single),
        (["redis6", "redis6-queue"], "LOCK_TEST_REDIS6_URL", Topology::Single),
        (["sentinel", "sentinel-queue"], "LOCK_TEST_SENTINEL_URL", sentinel),
        (["cluster", "cluster-queue"], "LOCK_TEST_CLUSTER_URL", Topology::Cluster),
    ];
    let both = |([plain, queue], variable, topology): ([&'static str; 2], _, Topology)| {
        let plain = Redis { name: plain, variable, topology, queue: false };
        [plain.clone(), Redis { name: queue, queue: true, ..plain }]
    };
    kinds.into_iter().flat_map(both).collect()
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
                "start servers (`dev/services.sh up redis sentinel cluster`) and name them by {}",
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
        let end = [b"lock:", key.as_bytes()].concat();
        self.on_records(EXPIRE, |name| name.ends_with(&end)).await;
    }

    async fn prune(&self) {
        const PRUNE: &str =
            "if redis.call('HEXISTS', KEYS[1], 'owner') == 0 then redis.call('DEL', KEYS[1]) end";
        self.on_records(PRUNE, |_| true).await;
    }
}

impl Redis {
    /// Runs a script on records, wherever they are.
    async fn on_records(&self, script: &str, is_meant: impl Fn(&[u8]) -> bool + Send + Sync) {
        for mut raw in self.masters().await {
            let names: Vec<Vec<u8>> =
                redis::cmd("KEYS").arg("distlock:*lock:*").query_async(&mut raw).await.unwrap();
            for name in names.iter().filter(|name| is_meant(name)) {
                redis::cmd("EVAL").arg(script).arg(1).arg(name).exec_async(&mut raw).await.unwrap();
            }
        }
    }

    /// Connections past the backend, to all masters.
    async fn masters(&self) -> Vec<redis::aio::MultiplexedConnection> {
        let url = StoreUrl::parse(&self.url()).unwrap();
        let mut masters = Vec::new();
        for host in &url.hosts {
            let mut address = host.with_default_port(6379);
            if let Topology::Sentinel { master } = &self.topology {
                let mut ask = redis::cmd("SENTINEL");
                ask.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
                let (host, port): (String, u16) = ask.query_async(&mut raw(&address).await).await.unwrap();
                address = format!("{host}:{port}");
            }
            let mut raw = raw(&address).await;
            let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut raw).await.unwrap();
            if role.first() == Some(&redis::Value::BulkString(b"master".to_vec())) {
                masters.push(raw);
            }
        }
        masters
    }
}

async fn raw(address: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{address}")).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
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
