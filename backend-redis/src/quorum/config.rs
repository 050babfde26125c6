//! Where the servers are and how they vote.

use std::time::Duration;

use distlock_core::{Error, ErrorKind, Result, StoreUrl, UrlOption};

use crate::config::RedisConfig;

/// How the servers of a quorum vote.
///
/// ```
/// use distlock_redis::{RedlockOptions, TokenMode};
/// use std::time::Duration;
/// let options = RedlockOptions::default().restart_holdoff(Duration::from_secs(30)).token(TokenMode::Agreed);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedlockOptions {
    /// Longest time to wait for one server's answer where that decides, 5 ms to 10 s. A server that is
    /// slower counts as down. Default: ttl/8, at least 100 ms and at most 900 ms, but never above ttl/4.
    pub node_timeout: Option<Duration>,
    /// What must be left of a lease when it is granted; less is given back and is
    /// [`TooSlow`](distlock_core::ErrorKind::TooSlow). Default: something.
    pub min_validity: Duration,
    /// For how long a server that was restarted or lost its data grants nothing, at most a day; 0 is
    /// off. It is the longest ttl, too: by then whatever the server has forgotten is over. All
    /// programs that share locks need the same. Default: off.
    pub restart_holdoff: Duration,
    /// What a token is worth. Default: [`TokenMode::Agreed`].
    pub token: TokenMode,
}

/// What a token is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenMode {
    /// A majority of the servers agreed on it before it is returned, which takes a second round trip;
    /// tokens rise with every grant.
    #[default]
    Agreed,
    /// It is returned at once, and a later grant may have a lower one. Not for fencing.
    BestEffort,
}

impl RedlockOptions {
    /// The URL options of a quorum, beside those of its servers.
    pub const URL_OPTIONS: &'static [UrlOption] = &[
        UrlOption::new(
            "node_timeout",
            "duration",
            "ttl/8, from 100 ms to 900 ms, at most ttl/4",
            "Longest time to wait for one server where its answer decides; 5 ms to 10 s. Longer bears slow networks; shorter gets past a frozen server sooner.",
        ),
        UrlOption::new(
            "min_validity",
            "duration",
            "0s",
            "What must be left of a lease when it is granted; otherwise it is given back as too slow.",
        ),
        UrlOption::new(
            "restart_holdoff",
            "duration",
            "off",
            "For how long a server that was restarted or lost its data grants nothing, 1 s to a day; also the longest ttl. The same in all programs.",
        ),
        UrlOption::new(
            "token",
            "agreed or best-effort",
            "agreed",
            "`best-effort` takes one round trip less, and tokens may fall.",
        ),
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
        UrlOption::CA,
        UrlOption::CERT,
        UrlOption::KEY,
        UrlOption::new(
            "allow_eviction",
            "on or off",
            "off",
            "Whether to use a server that throws keys away when it is full. Then a lock may vanish below its holder.",
        ),
    ];

    /// Sets the longest time to wait for one server.
    #[must_use]
    pub const fn node_timeout(mut self, limit: Duration) -> Self {
        self.node_timeout = Some(limit);
        self
    }

    /// Sets what must be left of a lease when it is granted.
    #[must_use]
    pub const fn min_validity(mut self, least: Duration) -> Self {
        self.min_validity = least;
        self
    }

    /// Sets for how long a restarted server grants nothing, which is the longest ttl, too.
    #[must_use]
    pub const fn restart_holdoff(mut self, length: Duration) -> Self {
        self.restart_holdoff = length;
        self
    }

    /// Sets what a token is worth.
    #[must_use]
    pub const fn token(mut self, mode: TokenMode) -> Self {
        self.token = mode;
        self
    }

    /// Takes the options of a quorum out of a URL.
    pub(super) fn read(url: &mut StoreUrl) -> Result<Self> {
        let mut options = Self { node_timeout: url.take_duration("node_timeout")?, ..Self::default() };
        if let Some(least) = url.take_duration("min_validity")? {
            options.min_validity = least;
        }
        if let Some(length) = url.take_duration("restart_holdoff")? {
            options.restart_holdoff = length;
        }
        options.token = match url.take("token").as_deref() {
            None | Some("agreed") => TokenMode::Agreed,
            Some("best-effort") => TokenMode::BestEffort,
            Some(_) => return invalid_url("the option `token` is `agreed` or `best-effort`"),
        };
        Ok(options)
    }

    pub(super) fn check(&self) -> Result<()> {
        let limits = Duration::from_millis(5)..=Duration::from_secs(10);
        if let Some(limit) = self.node_timeout
            && !limits.contains(&limit)
        {
            return invalid(format!("the option `node_timeout` is {limit:?}, but must be from 5ms to 10s"));
        }
        let length = self.restart_holdoff;
        let lengths = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);
        if !length.is_zero() && !lengths.contains(&length) {
            return invalid(format!(
                "the option `restart_holdoff` is {length:?}, but must be from 1s to a day; leave it out for none"
            ));
        }
        Ok(())
    }

    /// How long to wait for one server where its answer decides.
    pub(super) fn limit(&self, ttl: Duration) -> Duration {
        let (least, most) = (Duration::from_millis(100), Duration::from_millis(900));
        self.node_timeout.unwrap_or((ttl / 8).clamp(least, most).min(ttl / 4))
    }
}

/// Reads a URL with several independent servers: the configuration of each, and how they vote.
pub(super) fn from_url(url: &mut StoreUrl) -> Result<(Vec<RedisConfig>, RedlockOptions)> {
    let options = RedlockOptions::read(url)?;
    options.check().map_err(|error| Error::new(ErrorKind::InvalidUrl, error.message()))?;
    if url.hosts.is_empty() {
        return invalid_url("the URL names no servers; write for example `redlock://h1,h2,h3`");
    }
    count(url.hosts.len()).map_err(|error| Error::new(ErrorKind::InvalidUrl, error.message()))?;
    // Each server's configuration takes its options out of a copy; the last one out of the URL itself.
    let (scheme, hosts) = (url.scheme.clone(), url.hosts.clone());
    url.scheme = if scheme == "redlocks" { "rediss" } else { "redis" }.to_owned();
    let mut configs = Vec::with_capacity(hosts.len());
    for (at, host) in hosts.iter().enumerate() {
        url.hosts = vec![host.clone()];
        let is_last = at + 1 == hosts.len();
        configs.push(if is_last {
            RedisConfig::from_url(url)
        } else {
            RedisConfig::from_url(&mut url.clone())
        }?);
    }
    (url.scheme, url.hosts) = (scheme, hosts);
    let servers: std::collections::BTreeSet<_> = configs.iter().map(|config| &config.servers).collect();
    if servers.len() < configs.len() {
        return invalid_url("the URL names a server twice; each has one vote");
    }
    if configs.iter().any(|config| config.queue || config.wait_replicas > 0) {
        return invalid_url("`queue` and `wait_replicas` are not for independent servers");
    }
    Ok((configs, options))
}

/// Refuses numbers of servers with which a majority is not worth its price.
pub(super) fn count(servers: usize) -> Result<()> {
    if servers >= 3 && servers % 2 == 1 {
        return Ok(());
    }
    invalid(format!(
        "{servers} servers are named, but a majority takes an odd number of at least 3; with an even one, one server more may fail no more"
    ))
}

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOptions, message))
}

fn invalid_url<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidUrl, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<RedisConfig>, RedlockOptions)> {
        let mut url = StoreUrl::parse(text)?;
        let read = from_url(&mut url)?;
        url.refuse_unknown(RedlockOptions::URL_OPTIONS)?;
        Ok(read)
    }

    #[test]
    fn every_part_is_read() {
        let (configs, options) = read(
            "redlocks://u:p@a,b:7,[::1]/2?prefix=x:&node_timeout=50ms&restart_holdoff=30s&token=best-effort&min_validity=1s",
        )
        .unwrap();
        let servers: Vec<_> = configs.iter().map(|config| config.servers[0].as_str()).collect();
        assert_eq!(servers, ["a:6379", "b:7", "[::1]:6379"]);
        assert!(configs.iter().all(|config| config.tls && config.database == 2 && config.prefix == "x:"));
        assert_eq!(configs[1].password.as_deref(), Some("p"));
        let wanted = RedlockOptions::default()
            .node_timeout(Duration::from_millis(50))
            .min_validity(Duration::from_secs(1))
            .restart_holdoff(Duration::from_secs(30))
            .token(TokenMode::BestEffort);
        assert_eq!(options, wanted);
    }

    #[test]
    fn bad_urls_say_what_to_write() {
        for (url, part) in [
            ("redlock:", "names no servers"),
            ("redlock://a", "odd number"),
            ("redlock://a,b,c,d", "odd number"),
            ("redlock://a,b,a:6379", "twice"),
            ("redlock://a,b,c?token=some", "best-effort"),
            ("redlock://a,b,c?node_timeout=1ms", "5ms"),
            ("redlock://a,b,c?restart_holdoff=48h", "a day"),
            ("redlock://a,b,c?queue=true", "independent"),
            ("redlock://a,b,c?wait_replicas=1", "independent"),
            ("redlock://a,b,c?node_timout=1s", "did you mean `node_timeout`"),
            ("redlock://a,b,c?ca=/x", "rediss://"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
        }
    }
}
