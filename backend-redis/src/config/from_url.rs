//! Reading a store's URL.

use distlock_core::{Error, ErrorKind, Result, StoreUrl, UrlOption};

use super::{RedisConfig, Topology};

/// The port of a server that none is given for.
const SERVER_PORT: u16 = 6379;
/// The port of a Sentinel that none is given for.
const SENTINEL_PORT: u16 = 26379;

impl RedisConfig {
    /// The URL options this backend takes.
    pub const URL_OPTIONS: &'static [UrlOption] = &[
        UrlOption::new(
            "prefix",
            "text",
            "distlock:",
            "What all names in the store start with. Programs that share locks need the same.",
        ),
        UrlOption::new(
            "connect_timeout",
            "duration",
            "1s",
            "Longest time to open a connection. Longer bears slow networks; shorter reports trouble sooner.",
        ),
        UrlOption::new(
            "response_timeout",
            "duration",
            "2s",
            "Longest time for a reply. The client's own limit (ttl/6, at most 2 s) ends an operation too.",
        ),
        UrlOption::new(
            "queue",
            "on or off",
            "off",
            "Whether waiters of all programs are served in the order in which they came.",
        ),
        UrlOption::new(
            "waiter_liveness",
            "duration",
            "5s",
            "With `queue`: how long a waiter keeps its place without a sign of life; 2 s to 1 min. Shorter passes over dead waiters sooner; longer bears slow networks and long pauses.",
        ),
        UrlOption::CA,
        UrlOption::CERT,
        UrlOption::KEY,
        UrlOption::new(
            "allow_eviction",
            "on or off",
            "off",
            "Whether to use a server that throws keys away when it is full. Then a lock may vanish below its holder.",
        ),
        UrlOption::new(
            "db",
            "number",
            "0",
            "The database's number, where the path is a socket's. In code: `database`.",
        ),
        UrlOption::new(
            "wait_replicas",
            "number",
            "0",
            "On how many replicas a grant must have arrived; at most 16. More loses fewer locks in a failover, and refuses more while replicas lag.",
        ),
        UrlOption::new(
            "sentinel_user",
            "text",
            "none",
            "The user at the Sentinels. Set by `sentinel_credentials`.",
        ),
        UrlOption::new(
            "sentinel_password",
            "text",
            "none",
            "The password at the Sentinels. Set by `sentinel_credentials`.",
        ),
    ];

    /// Reads a URL and takes this backend's options out of it:
    /// - `redis://[user[:password]@]host[:port][/database]`; encrypted with `rediss://`;
    ///   `valkey://` and `valkeys://` mean the same;
    /// - `redis+sentinel://[user[:password]@]host[:port],…/master[/database]`; encrypted with
    ///   `rediss+sentinel://`; user and password are those of the servers;
    /// - `redis+cluster://[user[:password]@]host[:port],…`; encrypted with `rediss+cluster://`;
    /// - `redis+unix:/path/of/socket[?db=number]`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] if a part is missing, does not belong there or can't be read.
    pub fn from_url(url: &mut StoreUrl) -> Result<Self> {
        let mut config = Self { user: url.user.clone(), password: url.password.clone(), ..Self::default() };
        match url.scheme.as_str() {
            "redis+unix" => config.read_socket(url)?,
            scheme => {
                config.tls = scheme.starts_with("rediss") || scheme.starts_with("valkeys");
                config.read_servers(url)?;
            }
        }
        config.read_options(url)?;
        config.check().map_err(|error| Error::new(ErrorKind::InvalidUrl, error.message()))?;
        Ok(config)
    }

    fn read_servers(&mut self, url: &StoreUrl) -> Result<()> {
        if url.hosts.is_empty() {
            return invalid("the URL names no server; write for example `redis://localhost`");
        }
        let path = url.path.trim_matches('/');
        let (port, path) = match url.scheme.split_once('+') {
            Some((_, "sentinel")) => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return invalid(
                        "the path of the URL names no master; write for example `redis+sentinel://h1,h2,h3/mymaster`",
                    );
                }
                self.topology = Topology::Sentinel { master: master.to_owned() };
                (SENTINEL_PORT, database)
            }
            Some(_) => {
                self.topology = Topology::Cluster;
                (SERVER_PORT, path)
            }
            None => (SERVER_PORT, path),
        };
        self.servers = url.hosts.iter().map(|host| host.with_default_port(port)).collect();
        self.database = database(path)?;
        Ok(())
    }

    fn read_socket(&mut self, url: &mut StoreUrl) -> Result<()> {
        if !url.hosts.is_empty() || !url.path.starts_with('/') {
            return invalid("a socket is named by its whole path; write `redis+unix:/run/redis/redis.sock`");
        }
        self.servers = vec![url.path.clone()];
        self.database = url.take_number("db")?.unwrap_or(0);
        Ok(())
    }

    fn read_options(&mut self, url: &mut StoreUrl) -> Result<()> {
        if let Some(prefix) = url.take("prefix") {
            self.prefix = prefix;
        }
        if let Some(limit) = url.take_duration("connect_timeout")? {
            self.connect_timeout = limit;
        }
        if let Some(limit) = url.take_duration("response_timeout")? {
            self.response_timeout = limit;
        }
        self.queue = url.take_switch("queue")?.unwrap_or(false);
        if let Some(period) = url.take_duration("waiter_liveness")? {
            if !self.queue {
                return invalid("`waiter_liveness` has no use without a queue; add `queue=true`");
            }
            self.waiter_liveness = period;
        }
        if let Some(number) = url.take_number("wait_replicas")? {
            self.wait_replicas = number;
        }
        self.sentinel_user = url.take("sentinel_user");
        self.sentinel_password = url.take("sentinel_password");
        self.ca = url.take("ca").map(Into::into);
        self.cert = url.take("cert").map(Into::into);
        self.key = url.take("key").map(Into::into);
        if let Some(on) = url.take_switch("allow_eviction")? {
            self.allow_eviction = on;
        }
        if url.take("db").is_some() {
            return invalid(
                "instead of `db`, the database's number stands in the path; write for example `redis://localhost/1`",
            );
        }
        Ok(())
    }
}

fn database(path: &str) -> Result<i64> {
    match path {
        "" => Ok(0),
        number => number.parse().or_else(|_| {
            invalid("the path of the URL is no database's number; write for example `redis://localhost/1`")
        }),
    }
}

fn invalid<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidUrl, message))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(url: &str) -> Result<RedisConfig> {
        let mut url = StoreUrl::parse(url)?;
        let config = RedisConfig::from_url(&mut url)?;
        url.refuse_unknown(RedisConfig::URL_OPTIONS)?;
        Ok(config)
    }

    #[test]
    fn every_part_is_read() {
        let config =
            read("rediss://me:p%40ss@[::1]/3?prefix=a:&connect_timeout=2s&response_timeout=500ms&ca=/ca.pem")
                .unwrap();
        assert_eq!(config.servers, ["[::1]:6379"]);
        assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("me"), Some("p@ss")));
        assert_eq!((config.database, config.tls, config.prefix.as_str()), (3, true, "a:"));
        assert_eq!(config.connect_timeout, Duration::from_secs(2));
        assert_eq!(config.response_timeout, Duration::from_millis(500));
        assert_eq!(config.ca.as_deref(), Some(std::path::Path::new("/ca.pem")));
        let config = read("rediss://h?cert=/c.pem&key=/k.pem&allow_eviction=true").unwrap();
        assert_eq!(config.cert.as_deref(), Some(std::path::Path::new("/c.pem")));
        assert_eq!(config.key.as_deref(), Some(std::path::Path::new("/k.pem")));
        assert!(config.allow_eviction);
        assert!(!config.queue);
        let config = read("redis://h?queue=on&waiter_liveness=3s").unwrap();
        assert_eq!((config.queue, config.waiter_liveness), (true, Duration::from_secs(3)));
        let config =
            read("redis+sentinel://u:p@a,b:7/my/2?sentinel_user=s&sentinel_password=t&wait_replicas=1")
                .unwrap();
        assert_eq!(config.topology, Topology::Sentinel { master: "my".to_owned() });
        assert_eq!((config.servers, config.database), (vec!["a:26379".to_owned(), "b:7".to_owned()], 2));
        assert_eq!((config.user.as_deref(), config.sentinel_user.as_deref()), (Some("u"), Some("s")));
        assert_eq!((config.sentinel_password.as_deref(), config.wait_replicas), (Some("t"), 1));
        let config = read("rediss+cluster://a,b:7").unwrap();
        assert_eq!((config.topology, config.tls), (Topology::Cluster, true));
        assert_eq!(config.servers, ["a:6379", "b:7"]);
        let config = read("redis+unix:/run/redis.sock?db=2").unwrap();
        assert_eq!((config.servers, config.database), (vec!["/run/redis.sock".to_owned()], 2));
    }

    #[test]
    fn bad_urls_say_what_to_write() {
        for (url, part) in [
            ("redis:", "names no server"),
            ("redis://h/x", "database"),
            ("redis://h/-1", "below 0"),
            ("redis://a,b", "redis+sentinel"),
            ("redis://h?db=1", "path"),
            ("redis://h?perfix=x", "did you mean `prefix`"),
            ("redis://h?response_timeout=5ms", "10ms"),
            ("redis://h?queue=on&waiter_liveness=1s", "2s"),
            ("redis://h?waiter_liveness=5s", "queue=true"),
            ("redis://h?ca=/ca.pem", "rediss://"),
            ("redis://h?cert=/c.pem&key=/k.pem", "rediss://"),
            ("rediss://h?cert=/c.pem", "go together"),
            ("redis://h?allow_eviction=maybe", "allow_eviction"),
            ("redis+sentinel://h", "names no master"),
            ("redis+cluster://h/1", "database"),
            ("redis+cluster://h?prefix=%7Ba%7D", "braces"),
            ("redis://h?sentinel_password=x", "no Sentinels"),
            ("redis://h?wait_replicas=17", "above 16"),
            ("redis+unix:sock", "whole path"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn no_text_form_shows_the_password() {
        let config = read("redis://me:secret@h").unwrap();
        assert!(!format!("{config:?}").contains("secret"));
        let config = read("redis+sentinel://h/m?sentinel_password=secret").unwrap();
        assert!(!format!("{config:?}").contains("secret"));
    }
}
