//! Contenders in processes of their own, stopped and killed at random for a long time, and so are the
//! servers that `dev/services.sh run` has started around them: `make soak B=sqlite SECS=300`.
//!
//! Arguments: STORE SECONDS [SEED], and the store's URL in `LOCK_TEST_<STORE>_URL`. It fails if a promise
//! was broken, and then keeps the histories.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::history::Promises;
use distlock_core::{BackendInfo, LockBackend, LockClient, Registry, Result};
use distlock_testbed::lockprobe::{self, Work};
use distlock_testbed::{Action, ServiceSet, Soak, Target};

/// Every store that there is a backend for.
async fn connect(url: String) -> Result<LockClient> {
    Registry::new().with(distlock_sql::sqlite::driver()).connect(&url).await
}

async fn backend(url: String) -> Result<Arc<dyn LockBackend>> {
    Ok(Arc::clone(connect(url).await?.backend()))
}

fn main() -> ExitCode {
    if lockprobe::asked() {
        return lockprobe::main(backend);
    }
    let mut arguments = std::env::args().skip(1);
    let (Some(store), Some(seconds)) =
        (arguments.next(), arguments.next().and_then(|text| text.parse().ok()))
    else {
        eprintln!("soak STORE SECONDS [SEED]");
        return ExitCode::from(64);
    };
    let variable = format!("LOCK_TEST_{}_URL", store.to_ascii_uppercase());
    let Ok(url) = std::env::var(&variable) else {
        eprintln!("{variable} is not set");
        return ExitCode::from(64);
    };
    let seed = arguments.next().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    runtime.block_on(soak(&store, url, Duration::from_secs(seconds), seed))
}

async fn soak(store: &str, url: String, time: Duration, seed: u64) -> ExitCode {
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let client = connect(url.clone()).await.expect("the store takes a connection");
    // Runs on one store keep apart.
    let run = std::process::id();
    let keys = ["one", "two", "three"].map(|key| format!("soak/{run}/{key}"));
    let work = Work::new(url, folder.path(), seed).keys(keys);
    let servers = ServiceSet::servers_around().await;
    let promises = promises(client.info(), store);
    let targets = servers.into_iter().map(|server| Arc::new(server) as Arc<dyn Target>).collect();
    let report = Soak::new(work, 4, time).run(targets, &[Action::Pause, Action::Restart], promises).await;
    eprint!("{report}");
    if report.violations.is_empty() && report.grants > 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("the histories are in {}", folder.keep().display());
    ExitCode::FAILURE
}

/// Where killing a server makes another one its successor, that may not have heard of the last grants.
fn promises(info: &BackendInfo, store: &str) -> Promises {
    let promises = Promises::of(info);
    if matches!(store, "sentinel" | "cluster") { promises.without_exclusion() } else { promises }
}
