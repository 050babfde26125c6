//! What the tests of all parts need.

use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

/// Far more than a busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Why a test can't run here, if it can't.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missing {
    reason: Option<String>,
    fails: bool,
}

impl Missing {
    /// What must be there where `CONFORMANCE_REQUIRE=1` says so.
    pub(crate) fn required(available: Result<(), String>) -> Self {
        let fails = std::env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "1");
        Self { reason: available.err(), fails }
    }

    /// What some machines can't have.
    pub(crate) fn optional(available: Result<(), String>) -> Self {
        Self { reason: available.err(), fails: false }
    }

    /// Nothing is missing.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    pub(crate) fn or(&self, other: Self) -> Self {
        if self.reason.is_some() { self.clone() } else { other }
    }
}

/// A test, which is ignored, loudly, or fails where something is missing.
pub(crate) fn trial<F>(name: &str, missing: &Missing, test: F) -> Trial
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(reason) = missing.reason.clone() else {
        return Trial::test(name, move || {
            block_on(test);
            Ok(())
        });
    };
    eprintln!("{name} can't run: {reason}");
    let fails = missing.fails;
    Trial::test(name, move || Err(Failed::from(reason))).with_ignored_flag(!fails)
}

/// A runtime for one test.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built")
        .block_on(future)
}

/// Asks again and again until the answer is yes.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
