//! Clients in processes of their own, which can be stopped and killed, and what they lived through.
//!
//! A program that can connect to a store calls [`main`] when it was started as a probe:
//!
//! ```no_run
//! use std::{process::ExitCode, sync::Arc};
//! use distlock_core::{LockBackend, MemoryBackend};
//! use distlock_testbed::lockprobe;
//!
//! fn main() -> ExitCode {
//!     if lockprobe::asked() {
//!         return lockprobe::main(|_url| async { Ok(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>) });
//!     }
//!     // The test: it starts this same program as a `Probe`, hurts it, and checks `histories`.
//!     ExitCode::SUCCESS
//! }
//! ```

mod contender;
mod obey;
mod orders;
mod process;
mod resident;
mod scripted;
mod work;

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::history::{self, Event, Recorder, What};
use distlock_conformance::recording::{Canary, Recorded};
use distlock_core::{LockBackend, LockClient, Result};
use tokio::sync::watch;

use contender::Contender;
pub use orders::{Answer, Order};
pub use process::{Probe, ProbeSlot};
pub use resident::Resident;
pub use scripted::Scripted;
pub(crate) use scripted::millis;
pub use work::Work;

/// How long a probe goes on trying to connect.
const CONNECT: Duration = Duration::from_secs(30);
/// How long it rests between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a probe may take to give its locks back.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// Whether this process was started as a probe.
#[must_use]
pub fn asked() -> bool {
    std::env::var_os(Work::VARIABLE).is_some() || obey::summoned().is_some()
}

/// Works as a probe until the parent says stop or ends, and then gives everything back. `connect` gets
/// the URL that the parent chose.
///
/// # Panics
/// If this process was not started as a probe, or can't connect to the store for half a minute.
pub fn main<F, Fut>(connect: F) -> ExitCode
where
    F: Fn(String) -> Fut,
    Fut: Future<Output = Result<Arc<dyn LockBackend>>>,
{
    die_with_parent();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    runtime.block_on(async {
        if let Some((url, folder)) = obey::summoned() {
            serve(connected(connect, &url).await, &folder.clone(), async |client, log| {
                obey::obey(client, folder, &log).await;
            })
            .await;
        } else {
            let work = Work::asked();
            let backend = connected(connect, &work.url).await;
            serve(backend, &work.folder.clone(), async |client, log| contend(client, log, work).await).await;
        }
    });
    // Whatever still runs, as a crash would end it.
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

/// A nemesis may be at the store already.
async fn connected<F, Fut>(connect: F, url: &str) -> Arc<dyn LockBackend>
where
    F: Fn(String) -> Fut,
    Fut: Future<Output = Result<Arc<dyn LockBackend>>>,
{
    let deadline = Instant::now() + CONNECT;
    loop {
        match connect(url.to_owned()).await {
            Ok(backend) => return backend,
            Err(error) => assert!(Instant::now() < deadline, "a probe can't connect: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A stopped process does not notice that its orders ended.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("Linux has known this for long");
}

/// Records what `task` does with a client of this store.
async fn serve<F>(backend: Arc<dyn LockBackend>, folder: &Path, task: F)
where
    F: AsyncFnOnce(LockClient, Arc<Recorder>),
{
    let log = Arc::new(Recorder::in_folder(backend.clock(), folder).expect("the folder is writable"));
    let client = LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&log))));
    let canary = Canary::start();
    task(client.clone(), Arc::clone(&log)).await;
    let _ = client.shutdown(SHUTDOWN).await;
    log.record("", "", What::End { delay: u64::try_from(canary.worst().as_nanos()).unwrap_or(u64::MAX) });
}

async fn contend(client: LockClient, log: Arc<Recorder>, work: Work) {
    let stop = end_of_orders();
    let contenders = (0..work.contenders).map(|number| {
        let contender = Contender::new(&work, number, client.clone(), Arc::clone(&log));
        tokio::spawn(contender.contend(stop.clone()))
    });
    let own = work.own.iter().map(|key| {
        let alone = work.clone().keys([key.clone()]);
        let contender = Contender::new(&alone, work.contenders, client.clone(), Arc::clone(&log));
        tokio::spawn(contender.contend(stop.clone()))
    });
    // All of them, before the first is waited for.
    let contenders: Vec<_> = contenders.chain(own).collect();
    for contender in contenders {
        contender.await.expect("no contender panics");
    }
}

/// Turns true when the parent closes the input, or ends.
fn end_of_orders() -> watch::Receiver<bool> {
    let (over, stop) = watch::channel(false);
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = over.send(true);
    });
    stop
}

/// What all probes that wrote into `folder` lived through. The line that a killed one was writing is left out.
///
/// # Errors
/// If a history can't be read, or is damaged elsewhere than at its end.
pub fn histories(folder: &Path) -> io::Result<Vec<Event>> {
    history::read_folder(folder).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use distlock_core::Clock;

    use super::*;

    #[test]
    fn only_the_line_that_a_killed_probe_was_writing_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("1.jsonl");
        let log = Recorder::to_file(Clock::system(), &whole).unwrap();
        log.record("k", "o", What::End { delay: 1 });
        log.record("k", "o", What::End { delay: 2 });
        let lines = std::fs::read(&whole).unwrap();
        let count = || histories(folder.path()).map(|events| events.len());
        assert_eq!(count().unwrap(), 2);

        std::fs::write(folder.path().join("2.jsonl"), &lines[..lines.len() - 9]).unwrap();
        std::fs::write(folder.path().join("3.jsonl"), &lines[..9]).unwrap();
        std::fs::write(folder.path().join("4.jsonl"), "").unwrap();
        assert_eq!(count().unwrap(), 3);

        let damaged = [&lines[..9], b"\n", &lines].concat();
        std::fs::write(folder.path().join("5.jsonl"), damaged).unwrap();
        let said = count().unwrap_err().to_string();
        assert!(said.contains("5.jsonl, line 1: "), "{said}");
    }
}
