//! The program that `make soak` runs.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_conformance::history::Promises;
use distlock_conformance::{Proxy, Way};
use distlock_core::{BackendInfo, ExpiryClock, LockBackend, LockClient, Result};

use crate::lockprobe::{self, Work};
use crate::soak::Phase;
use crate::{Action, Link, Partition, ServiceSet, Soak, Surroundings, Target, WallClock};

/// How many contenders there are.
const PROBES: usize = 8;
/// Where the contenders are on a network of namespaces.
const CLIENTS: &str = "clients";
/// How long a client rests before its memory is looked at, unless `SOAK_IDLE` says how many seconds.
const IDLE: u64 = 600;

/// The `main` of a program that lets contenders in processes of their own contend on a store, and stops and kills
/// them at random, and the store's servers, cuts the network and moves the servers' wall clock, as far as the store
/// allows. `connect` gets the store's URL.
///
/// Arguments: `STORE SECONDS [SEED]`; a group of `dev/services.sh`. It fails if a promise was broken, if a client does
/// not work again in time, if a record is left behind, if a client takes more memory after a rest than before, and if a
/// holder that was stopped did no harm where no fence is; then it keeps the histories. It starts itself again as the
/// contenders, so nothing may be printed before.
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
            "etcd35" => &["n0", "n1", "n2"],
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
        let mut work = Work::new(&self.url, folder.path(), seed);
        if matches!(store, "etcd3" | "etcd35") {
            // A leader that stood still ends leases early once it goes on, unless its successor is there within half of this
            // (etcd-io/etcd#15247): eight election time-outs, as the operator is told.
            (work.ttl, work.patience) = (Duration::from_secs(4), Duration::from_secs(12));
        }
        let ttl = work.ttl;
        let idle = std::env::var("SOAK_IDLE").ok().and_then(|text| text.parse().ok()).unwrap_or(IDLE);
        let mut soak = Soak::new(work, PROBES, time).witnessed(Duration::from_secs(idle));
        if let Some(partition) = &self.partition {
            soak = soak.at(partition, CLIENTS);
        }
        let report = soak.run_phases(&phases(info, store, ttl, &self.targets)).await;
        eprint!("{report}");
        let complaints = report.complaints();
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

/// What a run is made of. Whether holds exclude each other is judged as far as that is promised, with the gentler faults
/// in a phase of their own: where the server's wall clock ends leases, a jump ends them early, or late by one ttl; and
/// killing a server may make another one its successor that has not heard of the last grants.
fn phases(info: &BackendInfo, store: &str, ttl: Duration, targets: &[Arc<dyn Target>]) -> Vec<Phase> {
    // A single server that forgets breaks its promises; of a majority, single ones may, with a hold-off.
    let mut actions = vec![Action::Pause, Action::Restart, Action::Cut];
    actions.extend((store == "redlock").then_some(Action::RestartWiped));
    let mut promises = Promises::of(info);
    if store == "redlock" {
        // Of a quorum, those that were wiped before a renewal may leave a holder with too few.
        promises = promises.with_sudden_ends();
    }
    if matches!(store, "sentinel" | "cluster") {
        return vec![
            Phase::new("no-failover", Vec::new(), &actions, promises),
            Phase::new("failovers", targets.to_vec(), &actions, promises.without_exclusion()),
        ];
    }
    let all = |name, promises| {
        Phase::new(name, targets.to_vec(), &[&actions[..], &[Action::Jump]].concat(), promises)
    };
    if !(info.guarantees.expiry == ExpiryClock::Server
        && targets.iter().any(|target| target.suffers(Action::Jump)))
    {
        return vec![all("all", promises)];
    }
    let mut loose = promises.without_exclusion().with_sudden_ends();
    loose.lateness += ttl * 2;
    loose.place += ttl * 2;
    vec![Phase::new("no-jumps", targets.to_vec(), &actions, promises), all("jumps", loose)]
}

#[cfg(test)]
mod tests {
    use distlock_core::{LockBackend as _, MemoryBackend};

    use super::*;

    /// Suffers nothing but jumps.
    struct AClock;

    #[async_trait]
    impl Target for AClock {
        fn name(&self) -> String {
            "clock".to_owned()
        }
        fn suffers(&self, action: Action) -> bool {
            action == Action::Jump
        }
        async fn begin(&self, _action: Action) {}
        async fn end(&self, _action: Action) {}
    }

    fn judged(store: &str, expiry: ExpiryClock, targets: &[Arc<dyn Target>]) -> Vec<(bool, bool)> {
        let mut info = MemoryBackend::new().info().clone();
        info.guarantees.expiry = expiry;
        let phases = phases(&info, store, Duration::from_secs(1), targets);
        phases.iter().map(|phase| (phase.promises.exclusion, phase.jumps())).collect()
    }

    #[test]
    fn exclusion_is_judged_in_every_run_and_nowhere_else_than_it_holds() {
        let clock: [Arc<dyn Target>; 1] = [Arc::new(AClock)];
        assert_eq!(judged("redis", ExpiryClock::Server, &clock), [(true, false), (false, true)]);
        assert_eq!(judged("sqlite", ExpiryClock::Holder, &[]), [(true, false)]);
        assert_eq!(judged("zk", ExpiryClock::Session, &clock), [(true, true)]);
        assert_eq!(judged("cluster", ExpiryClock::Server, &[]), [(true, false), (false, false)]);
    }
}
