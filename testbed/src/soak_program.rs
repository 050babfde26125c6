//! The program that `make soak` runs.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_conformance::history::Promises;
use distlock_conformance::{Proxy, Way};
use distlock_core::{BackendInfo, ExpiryClock, LockBackend, LockClient, Result};

use crate::lockprobe::{self, Work};
use crate::{Action, Link, Partition, Report, ServiceSet, Soak, Surroundings, Target, WallClock};

/// How many contenders there are.
const PROBES: usize = 8;
/// Where the contenders are on a network of namespaces.
const CLIENTS: &str = "clients";
/// How much more memory a client may take after all troubles, in per cent of what it took before.
const GROWTH: u64 = 5;
/// How long a client rests before its memory is looked at, unless `SOAK_IDLE` says how many seconds.
const IDLE: u64 = 600;

/// The `main` of a program that lets contenders in processes of their own contend on a store, and stops and kills
/// them at random, and the store's servers, cuts the network and moves the servers' wall clock, as far as the store
/// allows. `connect` gets the store's URL.
///
/// Arguments: `STORE SECONDS [SEED]`; a group of `dev/services.sh`. It fails if a promise was broken, if a client does
/// not work again in time, or takes more memory after a rest than before; then it keeps the histories. It starts itself
/// again as the contenders, so nothing may be printed before.
pub fn soak_program<F, Fut>(connect: F) -> ExitCode
where
    F: Fn(String) -> Fut,
    Fut: Future<Output = Result<LockClient>> + Send + 'static,
{
    if lockprobe::asked() {
        return lockprobe::main(|url| {
            let client = connect(url);
            async { Ok(Arc::clone(client.await?.backend()) as Arc<dyn LockBackend>) }
        });
    }
    let mut arguments = std::env::args().skip(1);
    let (Some(store), Some(seconds)) =
        (arguments.next(), arguments.next().and_then(|text| text.parse().ok()))
    else {
        eprintln!("soak STORE SECONDS [SEED]");
        return ExitCode::from(64);
    };
    let seed = arguments.next().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    runtime.block_on(async {
        let scene = Scene::of(&store).await;
        let connected = match &scene.partition {
            Some(partition) => partition.place(CLIENTS).run(connect(scene.url.clone())).await,
            None => connect(scene.url.clone()).await,
        };
        let info = connected.expect("the store takes a connection").info().clone();
        scene.soak(&info, &store, Duration::from_secs(seconds), seed).await
    })
}

/// Servers, and what can be done to them.
struct Scene {
    partition: Option<Arc<Partition>>,
    url: String,
    targets: Vec<Arc<dyn Target>>,
    /// They go with it.
    _set: ServiceSet,
}

impl Scene {
    async fn of(store: &str) -> Self {
        let clock = Arc::new(WallClock::new().expect("a clock can be made"));
        let places: &[&str] = match store {
            "etcd" => &["etcd"],
            "etcd3" => &["e0", "e1", "e2"],
            "zk" => &["zk"],
            "zk3" => &["z1", "z2", "z3"],
            "postgres" => &["postgres"],
            "mysql" => &["mysql"],
            _ => &[],
        };
        let namespaces =
            if places.is_empty() { Err("not for this store".to_owned()) } else { Partition::available() };
        let partition = match namespaces {
            Ok(()) => {
                Some(Arc::new(Partition::new(&[places, &[CLIENTS]].concat()).expect("networks can be made")))
            }
            Err(_) => None,
        };
        // Sentinels stop their work for half a minute when their clock jumps, and a cluster's nodes take a jump for
        // the silence of all others.
        let moves = !matches!(store, "sentinel" | "cluster" | "sqlite") && !store.starts_with("etcd");
        let clock_of_servers = moves.then_some(&*clock);
        let surroundings =
            Surroundings { partition: partition.as_deref(), clock: clock_of_servers, ..Default::default() };
        let set = ServiceSet::up_in(&surroundings, &[store]).await.expect("the servers start");
        let servers = set.servers().await;
        let mut url = set.url(store).to_owned();
        let mut targets: Vec<Arc<dyn Target>> = Vec::new();
        if moves {
            targets.push(clock);
        }
        if let Some(partition) = &partition {
            let links = [places, &[CLIENTS]].concat();
            targets
                .extend(links.iter().map(|place| Arc::new(Link::new(partition, place)) as Arc<dyn Target>));
            eprintln!("soak: the network is cut by network namespaces");
        } else if !matches!(store, "sentinel" | "cluster" | "sqlite") {
            for server in &servers {
                let proxy = Proxy::start(server.address()).expect("a proxy can be started");
                url = url.replace(&server.address().to_string(), &proxy.address().to_string());
                targets.push(Arc::new(Line(proxy)));
            }
            eprintln!("soak: the network is cut by proxies");
        } else {
            eprintln!("soak: the network is not cut");
        }
        targets.extend(servers.into_iter().map(|server| Arc::new(server) as Arc<dyn Target>));
        if store == "redlock" {
            url.push_str("?restart_holdoff=1s&ttl=1s");
        }
        Self { partition, url, targets, _set: set }
    }

    async fn soak(&self, info: &BackendInfo, store: &str, time: Duration, seed: u64) -> ExitCode {
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        let work = Work::new(&self.url, folder.path(), seed);
        let ttl = work.ttl;
        let promises =
            promises(info, store, ttl, self.targets.iter().any(|target| target.suffers(Action::Jump)));
        // A single server that forgets breaks its promises; of a majority, single ones may, with a hold-off.
        let mut actions = vec![Action::Pause, Action::Restart, Action::Cut, Action::Jump];
        actions.extend((store == "redlock").then_some(Action::RestartWiped));
        let idle = std::env::var("SOAK_IDLE").ok().and_then(|text| text.parse().ok()).unwrap_or(IDLE);
        let mut soak = Soak::new(work, PROBES, time).witnessed(Duration::from_secs(idle));
        if let Some(partition) = &self.partition {
            soak = soak.at(partition, CLIENTS);
        }
        let report = soak.run(self.targets.clone(), &actions, promises).await;
        eprint!("{report}");
        let complaints = complaints(&report, ttl);
        if complaints.is_empty() {
            return ExitCode::SUCCESS;
        }
        for complaint in complaints {
            eprintln!("soak: {complaint}");
        }
        eprintln!("the histories are in {}", folder.keep().display());
        ExitCode::FAILURE
    }
}

fn complaints(report: &Report, ttl: Duration) -> Vec<String> {
    let mut complaints = Vec::new();
    if !report.violations.is_empty() {
        complaints.push("promises were broken".to_owned());
    }
    if report.grants == 0 {
        complaints.push("nobody got a lock".to_owned());
    }
    let limit = ttl * 2 + Duration::from_secs(5);
    if let Some(recovery) = report.recovery.filter(|recovery| *recovery > limit) {
        complaints.push(format!("a client worked again after {recovery:?}, not {limit:?}"));
    }
    if let Some((before, after)) =
        report.memory.filter(|(before, after)| after * 100 > before * (100 + GROWTH))
    {
        complaints.push(format!("a client takes {after} KiB after all troubles, and took {before} before"));
    }
    complaints
}

/// The line to a server, with a proxy in it.
struct Line(Proxy);

#[async_trait]
impl Target for Line {
    fn name(&self) -> String {
        format!("line to {}", self.0.target())
    }

    fn suffers(&self, action: Action) -> bool {
        action == Action::Cut
    }

    async fn begin(&self, _action: Action) {
        self.0.silence(Way::ToServer);
        self.0.silence(Way::ToClient);
    }

    async fn end(&self, _action: Action) {
        self.0.pass();
    }
}

/// What holds under these faults. Killing a server may make another one its successor that has not heard of the
/// last grants; of a quorum, those that were wiped before a renewal may leave a holder with too few; and where the
/// server's wall clock ends leases, a jump ends them early, or late by one ttl.
fn promises(info: &BackendInfo, store: &str, ttl: Duration, jumps: bool) -> Promises {
    let mut promises = Promises::of(info);
    if jumps && info.guarantees.expiry == ExpiryClock::Server {
        promises = promises.without_exclusion().with_sudden_ends();
        promises.lateness += ttl * 2;
        promises.place += ttl * 2;
    }
    match store {
        "sentinel" | "cluster" => promises.without_exclusion(),
        "redlock" => promises.with_sudden_ends(),
        _ => promises,
    }
}
