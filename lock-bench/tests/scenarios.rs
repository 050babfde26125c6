//! Every scenario, briefly, on every embedded store, and on the servers that `LOCK_TEST_REDIS_URL` and
//! `LOCK_TEST_ETCD_URL` name. It is its own `main`, since `processes` starts this program again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;
use std::time::Duration;

use distlock_bench::{BenchOptions, Figures, Scenario, contend_if_asked, run};
use libtest_mimic::{Arguments, Completion, Trial};

fn main() -> ExitCode {
    if let Some(exit) = contend_if_asked(&distlock::registry()) {
        return exit;
    }
    let mut arguments = Arguments::from_args();
    // They keep all cores busy one at a time.
    arguments.test_threads = Some(1);
    let folder = tempfile::tempdir().unwrap();
    let stores = [
        ("memory", "memory:".to_owned()),
        #[cfg(feature = "sqlite")]
        ("sqlite", format!("sqlite:{}", folder.path().join("locks.db").display())),
    ];
    let mut trials = Vec::new();
    let mut stores = stores.to_vec();
    for (store, variable) in SERVERS {
        match std::env::var(variable) {
            Ok(url) => stores.push((store, url)),
            Err(_) => trials.push(without(store, variable)),
        }
    }
    for (store, url) in stores {
        for scenario in Scenario::ALL {
            if scenario == Scenario::Processes && store == "memory" {
                continue;
            }
            let url = url.clone();
            let has_peer = store == "etcd" && scenario == Scenario::Hot;
            let test = move || {
                check(&measured(&url, &brief(scenario).peer(has_peer)), has_peer);
                Ok(())
            };
            trials.push(Trial::test(format!("{store}::{scenario}"), test));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The stores that need a server, and where its URL stands.
const SERVERS: &[(&str, &str)] = &[
    #[cfg(feature = "redis")]
    ("redis", "LOCK_TEST_REDIS_URL"),
    #[cfg(feature = "etcd")]
    ("etcd", "LOCK_TEST_ETCD_URL"),
];

/// Shows as ignored, or fails with `CONFORMANCE_REQUIRE=1` in the environment.
fn without(store: &str, variable: &str) -> Trial {
    let reason = format!("start a server (`dev/services.sh up {store}`) and name it by {variable}");
    Trial::ignorable_test(store, move || {
        if std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1") {
            return Err(reason.into());
        }
        Ok(Completion::ignored_with(reason))
    })
}

fn brief(scenario: Scenario) -> BenchOptions {
    let options = BenchOptions::new(scenario).duration(Duration::from_millis(600));
    match scenario {
        // Renewed every third of the ttl, so three times. A request may take a sixth of it, also on a machine under load.
        Scenario::Held => {
            options.contenders(300).ttl(Duration::from_secs(3)).duration(Duration::from_secs(3))
        }
        Scenario::Processes => options.contenders(3),
        _ => options.floor(true),
    }
}

fn measured(url: &str, options: &BenchOptions) -> Figures {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run(&distlock::registry(), url, options)).unwrap()
}

fn check(figures: &Figures, has_peer: bool) {
    assert!(figures.operations > 0 && figures.ops_per_s > 0.0, "{figures:?}");
    assert!(figures.p50_us > 0.0 && figures.p50_us <= figures.p99_us, "{figures:?}");
    assert!(figures.p99_us <= figures.p999_us, "{figures:?}");
    assert_eq!((figures.violations, figures.lost), (0, 0), "{figures:?}");
    assert_eq!(figures.fifo_inversions.unwrap_or(0), 0, "{figures:?}");
    assert!(figures.commands_per_op.is_some(), "all stores count: {figures:?}");
    if figures.scenario == Scenario::Held {
        // One of the client, and of some stores a few for their streams; none for each lock.
        assert!(figures.scheduler_tasks.is_some_and(|tasks| (1..=8).contains(&tasks)), "{figures:?}");
    }
    let floor = !matches!(figures.scenario, Scenario::Held | Scenario::Processes);
    assert_eq!(figures.ratio.is_some_and(|ratio| ratio > 0.0), floor, "{figures:?}");
    assert_eq!(figures.peer_ratio.is_some_and(|ratio| ratio > 0.0), has_peer, "{figures:?}");
    let contended = matches!(figures.scenario, Scenario::Hot | Scenario::Herd | Scenario::Processes);
    assert_eq!(figures.handoff_p50_us.is_some(), contended, "{figures:?}");
}
