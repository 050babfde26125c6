//! Servers for tests, and the way from a list of async tests to a test binary.

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use distlock_testbed::ServiceSet;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::sync::OnceCell;

/// A test: its name, the groups of servers that it needs, and what it does.
pub(crate) type Test = (&'static str, &'static [&'static str], fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// The tests of a module, by name, all of which need the same groups of servers.
macro_rules! tests {
    ($groups:tt $($name:ident),* $(,)?) => {
        pub(crate) fn tests() -> Vec<crate::harness::Test> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), &$groups as &[_], || Box::pin($name()))),*]
        }
    };
}
pub(crate) use tests;

/// Runs tests. Those whose servers can't be started show as ignored, or fail with
/// `CONFORMANCE_REQUIRE=1` in the environment.
pub(crate) fn main(tests: Vec<Test>) -> ExitCode {
    let is_required = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
    let trials = tests.into_iter().map(|(name, groups, run)| {
        Trial::ignorable_test(name, move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build().map_err(Failed::from)?;
            match runtime.block_on(ServiceSet::available(groups)) {
                Err(missing) if !is_required => return Ok(Completion::ignored_with(missing)),
                Err(missing) => return Err(missing.into()),
                Ok(()) => runtime.block_on(run()),
            }
            Ok(Completion::Completed)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The URL of a server that tests share and don't break: the environment's, or one that ends with this
/// program.
pub(crate) async fn shared(group: &'static str) -> String {
    static PGBOUNCER: OnceCell<ServiceSet> = OnceCell::const_new();
    static POSTGRES: OnceCell<ServiceSet> = OnceCell::const_new();
    static MYSQL: OnceCell<ServiceSet> = OnceCell::const_new();
    if let Ok(url) = std::env::var(format!("LOCK_TEST_{}_URL", group.to_uppercase())) {
        return url;
    }
    let set = match group {
        "mysql" => &MYSQL,
        "pgbouncer" => &PGBOUNCER,
        _ => &POSTGRES,
    };
    let set = set.get_or_init(async || ServiceSet::up(&[group]).await.unwrap()).await;
    set.url(group).to_owned()
}

/// Waits until a condition holds, and fails when it never does.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("in vain for 30 s: {what}");
}

/// A name that no other test uses, fit for a table.
pub(crate) fn fresh(prefix: &str) -> String {
    format!("{prefix}_{}", &distlock_core::OwnerId::random().to_string()[..12])
}
