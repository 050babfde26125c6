//! The conformance suite on the ZooKeeper servers that the environment names.
//!
//! `LOCK_TEST_ZK_URL` names one server, and `LOCK_TEST_ZK3_URL` an ensemble of three.
//! `CONFORMANCE_STORE=zk` or `zk3` picks one out of those that are configured; without it, each of them is
//! tested in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, ExitCode};
use std::sync::Arc;

use distlock_conformance::{Faults, NetworkFaults, Subject};
use distlock_core::{BackendInfo, LockBackend, LockKey, Result, StoreUrl};
use distlock_zk::ZkBackend;
use distlock_zk::zookeeper_client::{Acls, Client, CreateMode};

/// Which store to test.
const STORE: &str = "CONFORMANCE_STORE";
/// The stores, and where their URLs stand.
const STORES: [(&str, &str); 2] = [("zk", "LOCK_TEST_ZK_URL"), ("zk3", "LOCK_TEST_ZK3_URL")];

/// A store that can be tested.
struct Zk {
    variable: &'static str,
    network: NetworkFaults,
}

impl Zk {
    fn new(variable: &'static str) -> Self {
        let text = std::env::var(variable).unwrap_or_else(|_| "zk://127.0.0.1:2181".to_owned());
        let url = StoreUrl::parse(&text).unwrap();
        let addresses: Vec<_> = url.hosts.iter().map(|host| host.with_default_port(2181)).collect();
        let (servers, folder) = (addresses.join(","), "/distlock-suite".to_owned());
        let write = |addresses: &[String]| format!("zk://{}/distlock-suite", addresses.join(","));
        let (of_expire, of_prune) = ((servers.clone(), folder.clone()), (servers, folder));
        let network = NetworkFaults::new(addresses, write)
            .expire(move |key| expire(of_expire.clone(), key))
            .prune(move || prune(of_prune.clone()));
        Self { variable, network }
    }
}

/// Deletes the node of whoever holds the key.
async fn expire((servers, folder): (String, String), key: LockKey) {
    let raw = Client::connect(&servers).await.unwrap();
    for lock in raw.list_children(&folder).await.unwrap() {
        if LockKey::from_escaped(&lock).ok().as_ref() == Some(&key) {
            let mut queue = raw.list_children(&format!("{folder}/{lock}")).await.unwrap();
            queue.sort_by_key(|name| name.rsplit('-').next().unwrap().to_owned());
            raw.delete(&format!("{folder}/{lock}/{}", queue[0]), None).await.unwrap();
        }
    }
}

/// Deletes the nodes of locks that nobody holds or waits for, as the server does after some time.
async fn prune((servers, folder): (String, String)) {
    let raw = Client::connect(&servers).await.unwrap();
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    raw.mkdir(&folder, &open).await.unwrap();
    let locks = raw.list_children(&folder).await.unwrap();
    for lock in locks.iter().filter(|name| !name.starts_with('.')) {
        // Those in use refuse.
        let _ = raw.delete(&format!("{folder}/{lock}"), None).await;
    }
}

#[async_trait::async_trait]
impl Subject for Zk {
    fn info(&self) -> BackendInfo {
        ZkBackend::describe()
    }
    fn url(&self) -> String {
        self.network.url()
    }
    fn available(&self) -> std::result::Result<(), String> {
        if std::env::var_os(self.variable).is_none() {
            return Err(format!(
                "start servers (`dev/services.sh up zk zk3`) and name them by {}",
                self.variable
            ));
        }
        self.network.available()
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(&self.network)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(ZkBackend::from_url(&mut StoreUrl::parse(url)?).await?))
    }
}

fn main() -> ExitCode {
    let wanted = std::env::var(STORE).ok();
    let mut chosen: Vec<_> = STORES.to_vec();
    match &wanted {
        Some(wanted) => chosen.retain(|(name, _)| name == wanted),
        // A store that is not configured is passed over, unless none is.
        None if chosen.iter().any(|(_, variable)| std::env::var_os(variable).is_some()) => {
            chosen.retain(|(_, variable)| std::env::var_os(variable).is_some());
        }
        None => chosen.truncate(1),
    }
    match chosen.as_slice() {
        [] => {
            eprintln!("{STORE}={} names no store of this backend", wanted.unwrap_or_default());
            ExitCode::FAILURE
        }
        [(_, variable)] => distlock_conformance::main(Zk::new(variable)),
        several => each(several),
    }
}

/// Runs the suite on each store in turn, each in a process of its own.
fn each(stores: &[(&str, &str)]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (name, _) in stores {
        let program = std::env::current_exe();
        let arguments = std::env::args_os().skip(1);
        let status =
            program.and_then(|program| Command::new(program).args(arguments).env(STORE, name).status());
        if !status.is_ok_and(|status| status.success()) {
            code = ExitCode::FAILURE;
        }
    }
    code
}
