//! Reading a store's URL.

use distlock_core::{Error, ErrorKind, Result, StoreUrl, UrlOption};

use super::ServerConfig;

/// The URL options that both kinds of servers take.
pub(crate) const URL_OPTIONS: &[UrlOption] = &[
    UrlOption::new(
        "socket",
        "path",
        "none",
        "Unix socket in place of a host; with PostgreSQL the folder it is in.",
    ),
    UrlOption::new("schema", "name", "the first of the search path", "PostgreSQL: the schema of the tables."),
    UrlOption::new(
        "table",
        "name",
        "distlock_locks",
        "The table with the locks. Programs that share locks need the same.",
    ),
    UrlOption::new("create", "on or off", "on", "Whether to create missing tables."),
    UrlOption::new(
        "tls",
        "on or off",
        "off",
        "Whether to encrypt; the name in the URL has to stand in the server's certificate.",
    ),
    UrlOption::CA,
    UrlOption::CERT,
    UrlOption::KEY,
    UrlOption::new(
        "connections",
        "number",
        "8",
        "The most connections for statements. A quarter of them is kept for renewing and unlocking. More serves more callers at once; fewer spares the server.",
    ),
    UrlOption::new("connect_timeout", "duration", "1s", "Longest time to open a connection."),
    UrlOption::new(
        "response_timeout",
        "duration",
        "1800ms",
        "Longest time for a statement, waiting for a connection and for others' row locks included. The server ends it as well.",
    ),
    UrlOption::new(
        "poll",
        "duration",
        "100ms",
        "MySQL and MariaDB, and with `pooled=on`: longest pause between two looks for releases, while somebody waits. Shorter hands over sooner.",
    ),
    UrlOption::new(
        "pooled",
        "on or off",
        "off",
        "PostgreSQL: whether a pooler in transaction mode stands in between.",
    ),
    UrlOption::new(
        "keep_idle",
        "duration",
        "24h",
        "How long the row of an unheld lock is kept. Must be longer than the server's clock is ever set back, else tokens may repeat.",
    ),
];

impl ServerConfig {
    /// Reads `scheme://[user[:password]@]host[:port][,host[:port]…][/database][?options]`, and takes
    /// this backend's options out of it. The scheme is not looked at.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] if a part is missing, does not belong there or can't be read;
    /// `FeatureDisabled` if encryption is asked for and the feature `tls` is off.
    pub fn from_url(url: &mut StoreUrl) -> Result<Self> {
        let mut config = Self { user: url.user.clone(), password: url.password.clone(), ..Self::default() };
        config.socket = url.take("socket").map(Into::into);
        if config.socket.is_some() != url.hosts.is_empty() {
            return invalid(format!(
                "the URL names a server or a socket; write for example `{scheme}://localhost/database` or `{scheme}:///database?socket=/run/…`",
                scheme = url.scheme
            ));
        }
        let port = |host: &distlock_core::Host| match host.port {
            Some(port) => host.with_default_port(port),
            None => host.name.clone(),
        };
        config.servers = url.hosts.iter().map(port).collect();
        let path = url.path.trim_matches('/');
        config.database = (!path.is_empty()).then(|| path.to_owned());
        config.read_options(url)?;
        config.check().map_err(|error| match error.kind() {
            ErrorKind::InvalidOptions => Error::new(ErrorKind::InvalidUrl, error.message()),
            _ => error,
        })?;
        Ok(config)
    }

    fn read_options(&mut self, url: &mut StoreUrl) -> Result<()> {
        self.schema = url.take("schema");
        if let Some(name) = url.take("table") {
            self.table = name;
        }
        if let Some(on) = url.take_switch("create")? {
            self.create = on;
        }
        if let Some(on) = url.take_switch("pooled")? {
            self.pooled = on;
        }
        if let Some(on) = url.take_switch("tls")? {
            self.tls = on;
        }
        self.ca = url.take("ca").map(Into::into);
        self.cert = url.take("cert").map(Into::into);
        self.key = url.take("key").map(Into::into);
        if let Some(most) = url.take_number("connections")? {
            self.connections = most;
        }
        if let Some(limit) = url.take_duration("connect_timeout")? {
            self.connect_timeout = limit;
        }
        if let Some(limit) = url.take_duration("response_timeout")? {
            self.response_timeout = limit;
        }
        if let Some(pause) = url.take_duration("poll")? {
            self.poll = pause;
        }
        if let Some(time) = url.take_duration("keep_idle")? {
            self.keep_idle = time;
        }
        Ok(())
    }
}

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidUrl, message))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(url: &str) -> Result<ServerConfig> {
        let mut url = StoreUrl::parse(url)?;
        let config = ServerConfig::from_url(&mut url)?;
        url.refuse_unknown(URL_OPTIONS)?;
        Ok(config)
    }

    #[test]
    fn every_part_is_read() {
        let config = read(
            "postgres://me:se%3Acret@a:5433,b/app?schema=s&table=t&create=off&connections=20&connect_timeout=2s&response_timeout=1s&poll=50ms&keep_idle=1h",
        )
        .unwrap();
        assert_eq!(config.servers, ["a:5433", "b"]);
        assert_eq!(config.user.as_deref(), Some("me"));
        assert_eq!(config.password.as_deref(), Some("se:cret"));
        assert_eq!(config.database.as_deref(), Some("app"));
        assert_eq!((config.schema.as_deref(), config.table.as_str(), config.create), (Some("s"), "t", false));
        assert_eq!((config.connections, config.connect_timeout), (20, Duration::from_secs(2)));
        assert_eq!(
            (config.response_timeout, config.poll),
            (Duration::from_secs(1), Duration::from_millis(50))
        );
        assert_eq!(config.keep_idle, Duration::from_secs(3600));
        assert!(!format!("{config:?}").contains("cret"));
        let config = read("mysql:///app?socket=/run/mysqld/mysqld.sock").unwrap();
        assert_eq!(config.socket.as_deref(), Some(std::path::Path::new("/run/mysqld/mysqld.sock")));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_write() {
        for (url, part) in [
            ("postgres:", "names a server or a socket"),
            ("postgres://h/x?socket=/run", "names a server or a socket"),
            ("postgres://h?tabel=x", "did you mean `table`"),
            ("postgres://h?table=x;drop", "lower-case letters"),
            ("postgres://h?schema=a.b", "lower-case letters"),
            ("postgres://h?connections=1", "from 2 to 1000"),
            ("postgres://h?response_timeout=5ms", "10ms"),
            ("postgres://h?ca=/ca.pem", "tls=on"),
            ("postgres://h?poll=2s", "1s"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
        }
    }
}
