//! The blocking calls, on the stores that need no server and on those servers that `LOCK_TEST_REDIS_URL` and its like name.
#![cfg(feature = "blocking")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod bodies;
mod ending;
mod guards;

use std::sync::mpsc;
use std::time::Duration;

use distlock::blocking::{self, LockClient};
use distlock::{Clock, LockOptions, WaitPolicy};

/// Less than the ttl where none is given: what is free by then was given back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn waiting(patience: Duration) -> LockOptions {
    LockOptions::default().wait(WaitPolicy::UpTo(patience))
}

/// Two clients of each store: two connections of a file, and clones where a connection is a store of its own.
pub(crate) fn stores() -> (tempfile::TempDir, Vec<(LockClient, LockClient)>) {
    let folder = tempfile::tempdir().unwrap();
    let memory = blocking::connect("memory:").unwrap();
    let mut stores = vec![(memory.clone(), memory)];
    let file =
        cfg!(feature = "sqlite").then(|| format!("sqlite:{}", folder.path().join("locks.db").display()));
    for url in file.into_iter().chain(servers()) {
        stores.push((blocking::connect(&url).unwrap(), blocking::connect(&url).unwrap()));
    }
    (folder, stores)
}

/// The servers to test on, each with a namespace that nobody else uses.
fn servers() -> impl Iterator<Item = String> {
    let all = [
        ("LOCK_TEST_REDIS_URL", cfg!(feature = "redis")),
        ("LOCK_TEST_POSTGRES_URL", cfg!(feature = "postgres")),
        ("LOCK_TEST_ETCD_URL", cfg!(feature = "etcd")),
    ];
    let named =
        all.into_iter().filter(|(_, is_built)| *is_built).filter_map(|(name, _)| std::env::var(name).ok());
    named.map(|url| {
        let joint = if url.contains('?') { '&' } else { '?' };
        format!("{url}{joint}namespace={}", distlock::OwnerId::random())
    })
}

/// Asks again and again, on a thread that is blocked in between and calls no client.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::system();
    let deadline = clock.now().plus(PATIENCE);
    let (_sender, nothing) = mpsc::channel::<()>();
    while !holds() {
        assert!(clock.now() < deadline, "in vain: {what}");
        let _ = nothing.recv_timeout(Duration::from_millis(10));
    }
}
