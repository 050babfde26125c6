//! Probes, and what their histories show.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::history::{Event, Promises, What};
use distlock_core::{LockBackend, LockClient, Result};
use distlock_sql::sqlite::{SqliteBackend, SqliteConfig};
use distlock_testbed::lockprobe::{self, Probe, Work};
use distlock_testbed::{Action, Soak};
use libtest_mimic::Trial;

use crate::support::{Missing, trial, until};

pub(crate) fn trials() -> Vec<Trial> {
    let nothing = Missing::nothing();
    vec![
        trial("lockprobes::a_sound_store_stands_the_nemesis", &nothing, sound()),
        trial("lockprobes::a_store_that_excludes_nobody_is_found_out", &nothing, unsound()),
        trial("lockprobes::a_lock_that_is_left_behind_is_named", &nothing, left_behind()),
        trial(
            "lockprobes::a_stopped_probe_is_succeeded_and_a_killed_one_leaves_its_history",
            &nothing,
            stopped(),
        ),
    ]
}

/// How this program connects when it is a probe. `apart:` is a broken store: each process has a file
/// of its own.
pub(crate) async fn connect(url: String) -> Result<Arc<dyn LockBackend>> {
    let file = match url.strip_prefix("apart:") {
        Some(file) => format!("{file}-{}", std::process::id()),
        None => url,
    };
    Ok(Arc::new(SqliteBackend::connect(SqliteConfig::new(&file)).await?))
}

fn work(folder: &Path, apart: bool) -> Work {
    let file = folder.join("locks.db").display().to_string();
    let seed = fastrand::u64(..);
    eprintln!("lockprobes: seed {seed}");
    Work::new(if apart { format!("apart:{file}") } else { file }, folder, seed)
}

fn promises() -> Promises {
    Promises::of(&SqliteBackend::describe())
}

async fn sound() {
    let folder = tempfile::tempdir().unwrap();
    let soak = Soak::new(work(folder.path(), false), 3, Duration::from_secs(8));
    let report = soak.run(Vec::new(), &[Action::Pause, Action::Restart], promises()).await;
    assert_eq!(report.complaints(), Vec::<String>::new(), "{report}");
    assert!(report.grants >= 10 && report.steps.len() >= 2, "{report}");
    assert!(report.lost_without_fence > 0, "a holder was stopped: {report}");
}

async fn unsound() {
    let folder = tempfile::tempdir().unwrap();
    let soak = Soak::new(work(folder.path(), true), 3, Duration::from_secs(4));
    let report = soak.run(Vec::new(), &[Action::Pause], promises()).await;
    let checks: Vec<_> = report.violations.iter().map(|violation| violation.check).collect();
    assert!(checks.contains(&"H1"), "holds overlap: {report}");
    assert!(report.lost_without_fence > 0, "and it does harm: {report}");
}

async fn left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), false);
    let client = LockClient::new(connect(work.url.clone()).await.unwrap());
    let held = client.lock("of nobody here").await.unwrap();
    let soak = Soak::new(work, 1, Duration::from_secs(1));
    let complaints = soak.run(Vec::new(), &[Action::Restart], promises()).await.complaints();
    held.unlock().await.unwrap();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("of nobody here"), "{complaints:?}");
}

async fn stopped() {
    let folder = tempfile::tempdir().unwrap();
    let work = work(folder.path(), false).keys(["only".to_owned()]);
    let (one, first) = begin(folder.path(), &work).await;
    let (two, second) = begin(folder.path(), &work).await;
    until("both get the lock", || {
        [first, second].map(|process| grants(folder.path(), process)).iter().all(|n| *n > 2)
    })
    .await;

    one.pause();
    let of_first = history(folder.path(), first).len();
    let before = grants(folder.path(), second);
    until("the other goes on", || grants(folder.path(), second) > before + 2).await;
    assert_eq!(history(folder.path(), first).len(), of_first, "it is stopped");
    one.resume();
    until("it goes on too", || history(folder.path(), first).len() > of_first).await;

    one.kill().await;
    let before = grants(folder.path(), second);
    until("the other goes on again", || grants(folder.path(), second) > before + 2).await;
    two.finish().await;
    let events = lockprobe::histories(folder.path()).unwrap();
    let ended = |event: &&Event| matches!(event.what, What::End { .. });
    let ends = |process| events.iter().filter(ended).filter(|event| event.process == process).count();
    assert_eq!((ends(first), ends(second)), (0, 1));
    assert_eq!(distlock_conformance::history::check(&events, promises()), []);
}

/// A probe, and the number by which its history names it.
async fn begin(folder: &Path, work: &Work) -> (Probe, u32) {
    let before = processes(folder);
    let probe = Probe::start(Probe::this_program(), work);
    let new = || processes(folder).difference(&before).next().copied();
    until("it writes its history", || new().is_some()).await;
    (probe, new().unwrap())
}

fn processes(folder: &Path) -> BTreeSet<u32> {
    lockprobe::histories(folder).unwrap().iter().map(|event| event.process).collect()
}

fn history(folder: &Path, process: u32) -> Vec<Event> {
    let events = lockprobe::histories(folder).unwrap();
    events.into_iter().filter(|event| event.process == process).collect()
}

fn grants(folder: &Path, process: u32) -> usize {
    history(folder, process).iter().filter(|event| matches!(event.what, What::Granted { .. })).count()
}
