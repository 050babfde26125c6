//! The conformance suite on the etcd stores that the environment names.
//!
//! `LOCK_TEST_ETCD_URL` names one server, `LOCK_TEST_ETCD3_URL` a cluster of three, `LOCK_TEST_ETCD35_URL` one
//! of version 3.5. `CONFORMANCE_STORE=etcd`, `etcd3` or `etcd35` picks one store out of those that are
//! configured; without it, each of them is tested in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, ExitCode};
use std::sync::Arc;

use distlock_conformance::{FaultAbilities, Faults, Subject};
use distlock_core::{BackendInfo, LockBackend, LockKey, Result, StoreUrl};
use distlock_etcd::EtcdBackend;
use distlock_etcd::etcd_client::{Client, GetOptions};

/// Which store to test.
const STORE: &str = "CONFORMANCE_STORE";
/// The stores, and where their URLs stand.
const STORES: [Etcd; 3] = [
    Etcd { name: "etcd", variable: "LOCK_TEST_ETCD_URL" },
    Etcd { name: "etcd3", variable: "LOCK_TEST_ETCD3_URL" },
    Etcd { name: "etcd35", variable: "LOCK_TEST_ETCD35_URL" },
];

/// A store that can be tested.
#[derive(Clone, Copy)]
struct Etcd {
    name: &'static str,
    variable: &'static str,
}

#[async_trait::async_trait]
impl Subject for Etcd {
    fn info(&self) -> BackendInfo {
        EtcdBackend::describe()
    }
    fn url(&self) -> String {
        std::env::var(self.variable).unwrap_or_default()
    }
    fn available(&self) -> std::result::Result<(), String> {
        match std::env::var_os(self.variable) {
            Some(_) => Ok(()),
            None => Err(format!(
                "start servers (`dev/services.sh up etcd etcd3`) and name them by {}",
                self.variable
            )),
        }
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::new(EtcdBackend::from_url(&mut StoreUrl::parse(url)?).await?))
    }
}

#[async_trait::async_trait]
impl Faults for Etcd {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE.expire_now().prune()
    }

    /// Ends the lease of the first in the queue, as the server does when its time is over.
    async fn expire_now(&self, key: &LockKey) {
        let url = StoreUrl::parse(&self.url()).unwrap();
        let servers: Vec<_> = url.hosts.iter().map(|host| host.with_default_port(2379)).collect();
        let mut raw = Client::connect(servers, None).await.unwrap();
        let queue = [b"distlock/", key.as_bytes(), b"\0/"].concat();
        let records = raw.get(queue, Some(GetOptions::new().with_prefix())).await.unwrap();
        let first = records.kvs().iter().min_by_key(|record| record.create_revision()).unwrap();
        raw.lease_revoke(first.lease()).await.unwrap();
    }

    /// Of an idle key there is nothing that could be forgotten.
    async fn prune(&self) {}
}

fn main() -> ExitCode {
    let wanted = std::env::var(STORE).ok();
    let mut chosen = STORES.to_vec();
    match &wanted {
        Some(wanted) => chosen.retain(|store| store.name == wanted),
        // A store that is not configured is passed over, unless none is.
        None if chosen.iter().any(|store| std::env::var_os(store.variable).is_some()) => {
            chosen.retain(|store| std::env::var_os(store.variable).is_some());
        }
        None => chosen.truncate(1),
    }
    match chosen.as_slice() {
        [] => {
            eprintln!("{STORE}={} names no store of this backend", wanted.unwrap_or_default());
            ExitCode::FAILURE
        }
        [only] => distlock_conformance::main(*only),
        several => each(several),
    }
}

/// Runs the suite on each store in turn, each in a process of its own.
fn each(stores: &[Etcd]) -> ExitCode {
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
