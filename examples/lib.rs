//! Runnable programs that show distlock at work: `cargo run --example NAME`.
//!
//! | example | shows |
//! |---|---|
//! | `quickstart` | taking a lock, its token, giving it back |
//! | `fenced_write` | the update that is lost without a fence, and refused with one |
//! | `fenced_redis` | the same for data in Redis, where the script that writes refuses a stale token |
//! | `fenced_etcd` | the same for data in etcd, where the transaction that writes refuses it |
//! | `lost_lock` | how a holder learns that its lock is in danger, and lost |
//! | `cron_once` | a job that runs once although every machine starts it |
//! | `worker_pool` | workers that keep out of each other's way, and a clean shutdown |
//! | `custom_backend` | a store of your own, and the suite that judges it |
//! | `otlp` | every operation of the store as a span, and the metrics, sent to a collector of OpenTelemetry |
//! | `guarded_endpoint` | a web service whose endpoint runs once at a time, however many instances there are |
//! | `singleton_worker` | of several processes one works; it hands over when it is stopped |
//! | `migration_runner` | one process migrates, the others wait and go on; a crashed one is taken over |
//! | `job_pool` | many jobs, several workers in several processes, each job done once |
//! | `hand_to_process` | a lock that one process takes and another gives back, without an async runtime |
//!
//! Each takes the store's URL from `DISTLOCK_URL`; without it they use `memory:`, a store inside the
//! process. To see several processes share locks, start one of them more than once with the same
//! `DISTLOCK_URL=sqlite:/tmp/locks.db`, or with `--features redis` and `DISTLOCK_URL=redis://127.0.0.1`, and so
//! on for `postgres` and `mysql`.
//!
//! The last five are made for several processes: without a URL they share an SQLite file. That and their data
//! are in `DISTLOCK_DATA`, or in `distlock-examples` in the system's folder for temporary files: remove it to
//! begin anew. Start one of them in several shells, stop or kill one, and watch their locks by `distlock ls`, which
//! takes the same `DISTLOCK_URL`.
//!
//! `otlp` needs `--features otlp`, and a collector: `OTEL_EXPORTER_OTLP_ENDPOINT` says where, `http://localhost:4318` if nothing is said.
//!
//! `fenced_redis` always takes a Redis server, and `fenced_etcd` an etcd server: this machine's if none is named.

mod stop_signal;

use std::path::{Path, PathBuf};
use std::{fs, io};

pub use stop_signal::StopSignal;

/// The store that an example uses: `DISTLOCK_URL`, or `memory:`.
#[must_use]
pub fn lock_url() -> String {
    std::env::var("DISTLOCK_URL").unwrap_or_else(|_| "memory:".into())
}

/// The store that processes share: `DISTLOCK_URL`, or an SQLite file in `folder`.
#[must_use]
pub fn shared_url(folder: &Path) -> String {
    std::env::var("DISTLOCK_URL").unwrap_or_else(|_| format!("sqlite:{}", folder.join("locks.db").display()))
}

/// The folder for what processes share, made if it is not there: `DISTLOCK_DATA`, or one for temporary files.
///
/// # Errors
/// If it can't be made.
pub fn data_folder() -> io::Result<PathBuf> {
    let folder = std::env::var_os("DISTLOCK_DATA")
        .map_or_else(|| std::env::temp_dir().join("distlock-examples"), PathBuf::from);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The number in a file; 0 if there is no such file yet.
///
/// # Errors
/// If it can't be read, or holds something else.
pub fn read_number(path: &Path) -> io::Result<u32> {
    match fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}
