//! What a cell works with, and how it is judged.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::history::{self, Event, Promises, What};
use distlock_conformance::recording::Canary;
use distlock_core::{BackendInfo, LockClient, Result};
use tempfile::TempDir;

use crate::grid::{Class, Measured, Store, faults};
use crate::lockprobe::{self, Answer, Order, Probe, Scripted};
use crate::soak::lost_without_fence;
use crate::{ServiceSet, WallClock};

/// Makes a client of a URL.
pub(super) type Connect =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = Result<LockClient>> + Send>> + Send + Sync>;

/// Far more than a lock takes to change hands on a busy machine.
pub(super) const AMPLE: Duration = Duration::from_secs(30);

pub(super) struct Rig {
    pub(super) cell: String,
    pub(super) store: Store,
    pub(super) group: Option<&'static str>,
    pub(super) rng: fastrand::Rng,
    seed: u64,
    class: Class,
    folder: TempDir,
    connect: Connect,
}

/// What has to be seen for a run to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// Nothing beside what the checks see.
    None,
    /// A holder acted beside another, and the unfenced register lost an update.
    Acted,
    /// The same, while both were told that they hold the lock.
    Overlapped,
}

impl Rig {
    /// For how long Redlock's servers keep off after their start, and the longest ttl that they give.
    pub(super) const HOLD_OFF: Duration = Duration::from_secs(8);

    pub(super) fn new(
        cell: String,
        fault: &str,
        store: Store,
        group: Option<&'static str>,
        connect: Connect,
    ) -> Self {
        let given = std::env::var("FAULT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        eprintln!("{cell}: seed {seed}");
        let row = faults().into_iter().find(|row| row.id == fault).expect("a cell belongs to a row");
        let rng = fastrand::Rng::with_seed(seed);
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        Self { cell, store, group, rng, seed, class: row.class(store), folder, connect }
    }

    /// The servers of this cell alone.
    pub(super) async fn servers(&self) -> ServiceSet {
        ServiceSet::up(&[self.group()]).await.expect("the servers start")
    }

    pub(super) fn group(&self) -> &'static str {
        self.group.expect("this store has servers")
    }

    /// A store that is not going to be hurt: what the caller has started, or servers of this cell's own.
    pub(super) async fn unhurt(&self) -> (Option<ServiceSet>, String) {
        let Some(group) = self.group else { return (None, self.local_url(self.folder.path())) };
        let (set, url) = match std::env::var(format!("LOCK_TEST_{}_URL", group.to_uppercase())) {
            Ok(url) => (None, url),
            Err(_) => {
                let set = self.servers().await;
                let url = set.url(group).to_owned();
                (Some(set), url)
            }
        };
        let url = self.options_of(&url);
        self.until_it_grants(&url).await;
        (set, url)
    }

    /// Redlock's servers keep off from when they are first asked, and after their clock was set back.
    pub(super) async fn until_it_grants(&self, url: &str) {
        let client = self.client(url).await.expect("the store takes clients");
        let other = format!("{}/other", self.key());
        until("the store grants locks", AMPLE, async || client.try_lock(other.as_str()).await.is_ok()).await;
    }

    /// The URL of a store without servers, whose file is in `folder`.
    pub(super) fn local_url(&self, folder: &Path) -> String {
        match self.store {
            Store::Memory => "memory:".to_owned(),
            _ => format!("sqlite:{}", folder.join("locks.db").display()),
        }
    }

    /// The URL that clients get for servers that are at `url`.
    pub(super) fn options_of(&self, url: &str) -> String {
        if self.store != Store::Redlock {
            return url.to_owned();
        }
        let seconds = Self::HOLD_OFF.as_secs();
        format!("{url}?restart_holdoff={seconds}s&ttl={seconds}s")
    }

    /// A key of this run alone.
    pub(super) fn key(&self) -> String {
        format!("cells/{}/{}", std::process::id(), self.cell)
    }

    /// Makes a client, on whatever runtime runs this.
    pub(super) fn client(&self, url: &str) -> Pin<Box<dyn Future<Output = Result<LockClient>> + Send>> {
        (self.connect)(url.to_owned())
    }

    pub(super) async fn probe(&self, url: &str) -> Scripted {
        self.probe_by(Probe::this_program(), url).await
    }

    /// A probe whose wall clock is this one.
    pub(super) async fn probe_under(&self, clock: &WallClock, url: &str) -> Scripted {
        let mut program = Probe::this_program();
        clock.apply(&mut program);
        self.probe_by(program, url).await
    }

    pub(super) async fn probe_by(&self, program: Command, url: &str) -> Scripted {
        Scripted::start(program, url, self.folder.path()).await
    }

    /// Some part of this.
    pub(super) fn some(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    pub(super) fn events(&self) -> Vec<Event> {
        lockprobe::histories(self.folder.path()).expect("the histories can be read")
    }

    /// Lets every client take a lock again, in time, and end.
    ///
    /// The time that the fault's end gives them is twice the ttl and five seconds.
    pub(super) async fn recover(&self, probes: Vec<Scripted>, ttl: Duration) -> Duration {
        let canary = Canary::start();
        let mut slowest = Duration::ZERO;
        let began = Instant::now();
        let limit = ttl * 2 + Duration::from_secs(5);
        let tries = probes.into_iter().enumerate().map(|(number, mut probe)| async move {
            let key = format!("{}/after/{number}", self.key());
            probe.lock(&key, ttl, AMPLE).await;
            let took = began.elapsed();
            let released = probe.ask(&Order::Unlock).await;
            probe.finish().await;
            assert_eq!(released, Answer::Unlocked { released: true }, "{}", self.cell);
            took
        });
        // One after the other would give the last of them more time.
        for took in futures_util::future::join_all(tries).await {
            slowest = slowest.max(took);
        }
        let allowed = limit + canary.worst() * 2;
        assert!(slowest <= allowed, "{}: a client worked again after {slowest:?}, not {limit:?}", self.cell);
        slowest
    }

    /// Writes down what was seen, and fails if that is more than the grid says, or too little to count.
    pub(super) fn judge(&self, info: &BackendInfo, means: &str, harm: Harm, recovery: Duration) {
        let events = self.events();
        let mut broken: BTreeMap<String, usize> =
            history::CHECKS.iter().map(|(check, _)| ((*check).to_owned(), 0)).collect();
        let mut worse = Vec::new();
        for violation in history::check(&events, self.promises(info)) {
            *broken.entry(violation.check.to_owned()).or_default() += 1;
            if !is_expected(self.class, violation.check, &violation.text) {
                worse.push(violation.to_string());
            }
        }
        let measured = Measured {
            cell: self.cell.clone(),
            seed: self.seed,
            means: means.to_owned(),
            acted_beside: acted_beside(&events),
            lost_without_fence: lost_without_fence(&events),
            recovery_ms: u64::try_from(recovery.as_millis()).unwrap_or(u64::MAX),
            broken,
        };
        eprintln!("{measured:?}");
        measured.note();
        assert!(worse.is_empty(), "{}: promises were broken: {worse:#?}", self.cell);
        if harm != Harm::None {
            let bit = measured.acted_beside > 0 && measured.lost_without_fence > 0;
            assert!(bit, "{}: void, since the fault did no harm: {measured:?}", self.cell);
        }
        if harm == Harm::Overlapped {
            assert!(
                measured.broken["H1"] > 0,
                "{}: void, since no holds overlapped: {measured:?}",
                self.cell
            );
        }
    }

    fn promises(&self, info: &BackendInfo) -> Promises {
        let promises = Promises::of(info);
        if self.store == Store::Redlock { promises.with_sudden_ends() } else { promises }
    }
}

/// Whether the grid allows for it. That H7 could not be decided says nothing of the store, and is never expected.
fn is_expected(class: Class, check: &str, text: &str) -> bool {
    class == Class::Fenced && ["H1", "H7"].contains(&check) && !text.starts_with("undecided")
}

/// How many writes were made, of one key's registers, after somebody with a higher token had been granted the lock.
fn acted_beside(events: &[Event]) -> usize {
    let grants: Vec<_> = events
        .iter()
        .filter_map(|event| match event.what {
            What::Granted { token, .. } => Some((event.at, event.key.replace(['/', '\\'], "_"), token)),
            _ => None,
        })
        .collect();
    let is_beside = |event: &&Event| match &event.what {
        What::Write { resource, fenced: false, token, .. } => grants.iter().any(|(at, key, granted)| {
            *at < event.at && granted > token && resource.contains(&format!("/{key}/"))
        }),
        _ => false,
    };
    events.iter().filter(is_beside).count()
}

/// Asks again and again until the answer is yes.
pub(super) async fn until(what: &str, limit: Duration, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_holders_are_expected_where_tokens_fence_but_nothing_undecided_is() {
        let overlaps = "two held it at once";
        let undecided = "undecided: 20 configurations don't suffice for the answer at 7, with 9 calls open";
        assert!(is_expected(Class::Fenced, "H1", overlaps) && is_expected(Class::Fenced, "H7", overlaps));
        assert!(!is_expected(Class::Fenced, "H7", undecided));
        assert!(!is_expected(Class::Fenced, "H2", overlaps));
        for class in [Class::Safe, Class::Delayed, Class::Unpromised, Class::Absent] {
            assert!(!is_expected(class, "H1", overlaps) && !is_expected(class, "H7", overlaps));
        }
    }
}
