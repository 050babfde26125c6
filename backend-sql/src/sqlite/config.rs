//! Where the database is and how to use it.

use std::path::PathBuf;
use std::time::Duration;

use distlock_core::{Error, ErrorKind, Result, StoreUrl, UrlOption};

use super::machine::Machine;

/// Where the database is and how to use it.
///
/// ```
/// use distlock_sql::sqlite::SqliteConfig;
/// use std::time::Duration;
/// let config = SqliteConfig::new("/var/lib/app/locks.db").poll(Duration::from_millis(5));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// The database file. It is created if missing; its folder must exist. Default: `locks.db` in
    /// the current folder.
    pub path: PathBuf,
    /// How long one operation tries while another program keeps the database locked, before it
    /// fails with `Unavailable`. 10 ms to 1 min; default 1.8 s.
    pub busy_timeout: Duration,
    /// Longest pause between two looks for releases by other programs, while somebody waits. 1 ms
    /// to 1 s; default 20 ms. Shorter hands a lock over sooner and costs more processor time.
    pub poll: Duration,
    /// How long the record of a lock that nobody holds is kept, and with it the lock's last token
    /// for [`LockAdmin::inspect`](distlock_core::LockAdmin::inspect). 1 min to 10 years; default 24 h.
    pub keep_idle: Duration,
    /// Clocks and epoch, for tests. Default: the machine's own.
    #[doc(hidden)]
    pub machine: Option<Machine>,
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self {
            path: PathBuf::from("locks.db"),
            // Less than the client's own limit, so that this error is the one that is seen.
            busy_timeout: Duration::from_millis(1800),
            poll: Duration::from_millis(20),
            keep_idle: Duration::from_secs(24 * 60 * 60),
            machine: None,
        }
    }
}

impl SqliteConfig {
    /// The URL options this backend takes.
    pub const URL_OPTIONS: &'static [UrlOption] = &[
        UrlOption::new(
            "busy_timeout",
            "duration",
            "1800ms",
            "How long one operation tries while another program keeps the database locked; 10 ms to 1 min. Longer rides out backups and long transactions; shorter reports trouble sooner.",
        ),
        UrlOption::new(
            "poll",
            "duration",
            "20ms",
            "Longest pause between two looks for releases by other programs, while somebody waits; 1 ms to 1 s. Shorter hands over sooner and costs more processor time.",
        ),
        UrlOption::new(
            "keep_idle",
            "duration",
            "24h",
            "How long the record of an unheld lock is kept, and with it its last token; 1 min to 10 years.",
        ),
    ];

    /// The defaults, on this database file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Reads `sqlite:FILE` and takes this backend's options out of it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] if the file is missing or not a plain path, or an option can't be read.
    pub fn from_url(url: &mut StoreUrl) -> Result<Self> {
        if !url.hosts.is_empty() || url.user.is_some() {
            return invalid_url(
                "SQLite has no host; write `sqlite:FILE`, for example `sqlite:locks.db` or `sqlite:/var/lib/app/locks.db`",
            );
        }
        if url.path.is_empty() {
            return invalid_url(
                "the URL names no file; write `sqlite:FILE`, or `memory:` for locks inside this process alone",
            );
        }
        if url.path == ":memory:" || url.path.starts_with("file:") {
            return invalid_url(
                "locks need a database file, named by a plain path; write `sqlite:FILE`, or `memory:` for locks inside this process alone",
            );
        }
        let mut config = Self::new(&url.path);
        if let Some(limit) = url.take_duration("busy_timeout")? {
            config.busy_timeout = limit;
        }
        if let Some(pause) = url.take_duration("poll")? {
            config.poll = pause;
        }
        if let Some(time) = url.take_duration("keep_idle")? {
            config.keep_idle = time;
        }
        config.check().map_err(|error| Error::new(ErrorKind::InvalidUrl, error.message()))?;
        Ok(config)
    }

    /// Sets the database file.
    #[must_use]
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets how long one operation tries while the database is locked.
    #[must_use]
    pub const fn busy_timeout(mut self, limit: Duration) -> Self {
        self.busy_timeout = limit;
        self
    }

    /// Sets the longest pause between two looks for releases by other programs.
    #[must_use]
    pub const fn poll(mut self, pause: Duration) -> Self {
        self.poll = pause;
        self
    }

    /// Sets how long the record of an unheld lock is kept.
    #[must_use]
    pub const fn keep_idle(mut self, time: Duration) -> Self {
        self.keep_idle = time;
        self
    }

    /// Sets clocks and epoch, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        const MS: Duration = Duration::from_millis(1);
        const MINUTE: Duration = Duration::from_secs(60);
        const YEARS: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
        within("busy_timeout", self.busy_timeout, 10 * MS, MINUTE)?;
        within("poll", self.poll, MS, Duration::from_secs(1))?;
        within("keep_idle", self.keep_idle, MINUTE, YEARS)
    }
}

fn within(name: &str, value: Duration, least: Duration, most: Duration) -> Result<()> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidOptions,
        format!("the option `{name}` is {value:?}, but must be from {least:?} to {most:?}"),
    ))
}

fn invalid_url<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidUrl, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<SqliteConfig> {
        let mut url = StoreUrl::parse(url)?;
        let config = SqliteConfig::from_url(&mut url)?;
        url.refuse_unknown(SqliteConfig::URL_OPTIONS)?;
        Ok(config)
    }

    #[test]
    fn every_option_is_read_and_a_misspelt_one_refused() {
        let config = read("sqlite:/tmp/a%20b.db?busy_timeout=5s&poll=2ms&keep_idle=1h").unwrap();
        assert_eq!(config.path, PathBuf::from("/tmp/a b.db"));
        assert_eq!(config.busy_timeout, Duration::from_secs(5));
        assert_eq!(config.poll, Duration::from_millis(2));
        assert_eq!(config.keep_idle, Duration::from_secs(3600));
        let error = read("sqlite:x.db?pol=2ms").unwrap_err();
        assert!(error.to_string().contains("did you mean `poll`"), "{error}");
    }

    #[test]
    fn urls_without_a_file_point_to_the_right_form() {
        for url in ["sqlite:", "sqlite::memory:", "sqlite:file:x?mode=memory"] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(error.to_string().contains("`memory:`"), "{url}: {error}");
        }
        assert!(read("sqlite://host/x").unwrap_err().to_string().contains("sqlite:FILE"));
    }

    #[test]
    fn options_out_of_range_are_refused_with_the_range() {
        for url in ["sqlite:x?busy_timeout=1ms", "sqlite:x?poll=0s", "sqlite:x?keep_idle=1s"] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(error.to_string().contains("must be from"), "{error}");
        }
    }
}
