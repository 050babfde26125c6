//! Telling cheaply that nothing was committed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use distlock_core::Instant;

/// After this long without a write, the file's own time is relied on. Before, a commit may have been
/// written already but not be visible yet, or fall into the same tick of the file system's clock.
const SETTLED: Duration = Duration::from_secs(1);

/// Even then the database is asked this often.
const BACKSTOP: Duration = Duration::from_millis(250);

/// The write-ahead log as a file: every commit changes its time or its length. Asking the system for
/// those costs a small part of what asking SQLite costs.
pub(super) struct LogFile {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
    changed: Instant,
    asked: Instant,
}

impl LogFile {
    pub(super) fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self { path: path.into(), seen: None, changed: Instant::ORIGIN, asked: Instant::ORIGIN }
    }

    /// Whether the database need not be asked now. If it says no, the database has to be.
    pub(super) fn is_quiet(&mut self, now: Instant) -> bool {
        let found = std::fs::metadata(&self.path).and_then(|log| Ok((log.modified()?, log.len()))).ok();
        if found.is_none() || found != self.seen {
            self.seen = found;
            self.changed = now;
        }
        let is_quiet = now.since(self.changed) >= SETTLED && now.since(self.asked) < BACKSTOP;
        if !is_quiet {
            self.asked = now;
        }
        is_quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(1_000_000_000).plus(Duration::from_millis(ms))
    }

    #[test]
    fn a_log_is_quiet_a_second_after_its_last_write_and_asked_about_four_times_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("x.db");
        let mut log = LogFile::of(&database);
        assert!(!log.is_quiet(at(0)) && !log.is_quiet(at(5000)), "there is none");
        std::fs::write(folder.path().join("x.db-wal"), "a").unwrap();
        assert!(!log.is_quiet(at(6000)) && !log.is_quiet(at(6900)));
        assert!(log.is_quiet(at(7010)) && log.is_quiet(at(7100)));
        assert!(!log.is_quiet(at(7200)), "the backstop");
        assert!(log.is_quiet(at(7300)));
        std::fs::write(folder.path().join("x.db-wal"), "ab").unwrap();
        assert!(!log.is_quiet(at(7310)) && !log.is_quiet(at(7320)));
    }
}
