//! The conformance suite on database servers of its own, behind a proxy that breaks the network, and
//! killed, frozen and wiped by the cases.
//!
//! `CONFORMANCE_STORE=postgres` or `mysql` picks one; without it both are tested, one after the other.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::net::TcpListener;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use distlock_conformance::{Faults, NetworkFaults, Subject};
use distlock_core::{BackendInfo, LockBackend, Result, StoreUrl};
use distlock_testbed::ServiceSet;
use tokio::runtime::Runtime;

/// Which store to test.
const STORE: &str = "CONFORMANCE_STORE";
/// Where `dev/services.sh` looks for a free block of ports. Set by this program for itself, so that all of
/// its processes know.
const BASE: &str = "SVC_FIRST";
/// Says that [`BASE`] is ours.
const IS_OURS: &str = "DISTLOCK_FAULTS";

/// The stores of this build: name, which is also their group of servers, the server's port in the block,
/// and the database.
const STORES: &[(&str, u16, &str)] = &[
    #[cfg(feature = "postgres")]
    ("postgres", 60, "postgres://postgres@{}/postgres"),
    #[cfg(feature = "mysql")]
    ("mysql", 70, "mysql://root@{}/locks"),
];

struct Database {
    name: &'static str,
    faults: NetworkFaults,
}

#[async_trait::async_trait]
impl Subject for Database {
    fn info(&self) -> BackendInfo {
        match self.name {
            #[cfg(feature = "postgres")]
            "postgres" => distlock_sql::postgres::describe(),
            #[cfg(feature = "mysql")]
            "mysql" => distlock_sql::mysql::describe(),
            other => unreachable!("{other}"),
        }
    }
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>> {
        let mut url = StoreUrl::parse(url)?;
        match self.name {
            #[cfg(feature = "postgres")]
            "postgres" => Ok(Arc::new(distlock_sql::postgres::from_url(&mut url).await?)),
            #[cfg(feature = "mysql")]
            "mysql" => Ok(Arc::new(distlock_sql::mysql::from_url(&mut url).await?)),
            other => unreachable!("{other}"),
        }
    }
    fn url(&self) -> String {
        self.faults.url()
    }
    fn available(&self) -> std::result::Result<(), String> {
        self.faults.available()
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(&self.faults)
    }
}

fn main() -> ExitCode {
    let wanted = std::env::var(STORE).ok();
    if std::env::var_os(IS_OURS).is_some() {
        let store = STORES.iter().find(|(name, ..)| Some(*name) == wanted.as_deref());
        return distlock_conformance::main(database(*store.expect("this program named it")));
    }
    let mut code = ExitCode::SUCCESS;
    for (name, ..) in STORES.iter().filter(|(name, ..)| wanted.as_ref().is_none_or(|wanted| wanted == name)) {
        let status = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .args(std::env::args_os().skip(1))
                .env(STORE, name)
                .env(IS_OURS, "1")
                .env(BASE, free_block().to_string())
                .env_remove(format!("LOCK_TEST_{}_URL", name.to_uppercase()))
                .status()
        });
        if !status.is_ok_and(|status| status.success()) {
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn database((name, offset, url): (&'static str, u16, &'static str)) -> Database {
    let base: u16 = std::env::var(BASE).unwrap().parse().unwrap();
    let address = format!("127.0.0.1:{}", base + offset);
    let faults = NetworkFaults::new([address], |addresses| url.replace("{}", &addresses[0]))
        .server(move || {
            // A runtime of its own, which goes on for as long as the servers are to live.
            static SERVERS: OnceLock<std::result::Result<(Runtime, ServiceSet), String>> = OnceLock::new();
            let begin = || -> std::result::Result<(Runtime, ServiceSet), String> {
                let runtime = Runtime::new().map_err(|error| error.to_string())?;
                runtime.block_on(ServiceSet::available(&[name]))?;
                let set = runtime.block_on(ServiceSet::up(&[name])).map_err(|error| error.to_string())?;
                match set.server(name).address().port() {
                    port if port == base + offset => Ok((runtime, set)),
                    port => {
                        Err(format!("the server is at port {port}, since somebody took {base}; try again"))
                    }
                }
            };
            // Not in a thread that has a runtime already.
            let begun = std::thread::scope(|scope| {
                scope.spawn(|| SERVERS.get_or_init(begin).as_ref().map(|(_, set)| set.server(name))).join()
            });
            begun.unwrap_or_else(|_| unreachable!("it does not panic")).map_err(Clone::clone)
        })
        .doubles()
        .tokens_outlive_data()
        .holds_outlive_restart();
    Database { name, faults }
}

/// The first of a hundred ports that nobody uses, below those that the system gives to outgoing
/// connections.
fn free_block() -> u16 {
    let is_free =
        |base: &u16| [0, 60, 70].iter().all(|at| TcpListener::bind(("127.0.0.1", base + at)).is_ok());
    let blocks = || (100..210).map(|block| block * 100);
    blocks().cycle().skip(usize::from(fastrand::u8(..))).find(is_free).unwrap_or_else(|| unreachable!())
}
