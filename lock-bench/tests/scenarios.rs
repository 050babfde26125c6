//! Every scenario, briefly, on every embedded store, and on the Redis server that `LOCK_TEST_REDIS_URL`
//! names. It is its own `main`, since `processes` starts this program again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;
use std::time::Duration;

use distlock_bench::{BenchOptions, Figures, Scenario, contend_if_asked, run};
#[cfg(feature = "redis")]
use libtest_mimic::Completion;
use libtest_mimic::{Arguments, Trial};

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
    #[cfg(feature = "redis")]
    let stores = {
        let redis = std::env::var("LOCK_TEST_REDIS_URL").ok();
        trials.extend(redis.is_none().then(without_redis));
        stores.into_iter().chain(redis.map(|url| ("redis", url)))
    };
    for (store, url) in stores {
        for scenario in Scenario::ALL {
            if scenario == Scenario::Processes && store == "memory" {
                continue;
            }
            let url = url.clone();
            let test = move || {
                check(&measured(&url, &brief(scenario)));
                Ok(())
            };
            trials.push(Trial::test(format!("{store}::{scenario}"), test));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Shows as ignored, or fails with `CONFORMANCE_REQUIRE=1` in the environment.
#[cfg(feature = "redis")]
fn without_redis() -> Trial {
    Trial::ignorable_test("redis", || {
        let reason = "start a server (`dev/services.sh up redis`) and name it by LOCK_TEST_REDIS_URL";
        if std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1") {
            return Err(reason.into());
        }
        Ok(Completion::ignored_with(reason))
    })
}

fn brief(scenario: Scenario) -> BenchOptions {
    let options = BenchOptions::new(scenario).duration(Duration::from_millis(600));
    match scenario {
        // Renewed every third of the ttl, so three times within a second.
        Scenario::Held => {
            options.contenders(300).ttl(Duration::from_secs(1)).duration(Duration::from_secs(1))
        }
        Scenario::Processes => options.contenders(3),
        _ => options.floor(true),
    }
}

fn measured(url: &str, options: &BenchOptions) -> Figures {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run(&distlock::registry(), url, options)).unwrap()
}

fn check(figures: &Figures) {
    assert!(figures.operations > 0 && figures.ops_per_s > 0.0, "{figures:?}");
    assert!(figures.p50_us > 0.0 && figures.p50_us <= figures.p99_us, "{figures:?}");
    assert!(figures.p99_us <= figures.p999_us, "{figures:?}");
    assert_eq!((figures.violations, figures.lost), (0, 0), "{figures:?}");
    assert_eq!(figures.fifo_inversions.unwrap_or(0), 0, "{figures:?}");
    assert!(figures.commands_per_op.is_some(), "all stores count: {figures:?}");
    if figures.scenario == Scenario::Held {
        assert_eq!(figures.scheduler_tasks, Some(1), "{figures:?}");
    }
    let floor = !matches!(figures.scenario, Scenario::Held | Scenario::Processes);
    assert_eq!(figures.ratio.is_some_and(|ratio| ratio > 0.0), floor, "{figures:?}");
    let contended = matches!(figures.scenario, Scenario::Hot | Scenario::Herd | Scenario::Processes);
    assert_eq!(figures.handoff_p50_us.is_some(), contended, "{figures:?}");
}
