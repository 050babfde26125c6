//! Reading a store's URL.

use distlock_core::{Error, ErrorKind, Result, StoreUrl, UrlOption};

use super::EtcdConfig;

/// The port of a server that none is given for.
const PORT: u16 = 2379;

impl EtcdConfig {
    /// The URL options this backend takes.
    pub const URL_OPTIONS: &'static [UrlOption] = &[
        UrlOption::new(
            "connect_timeout",
            "duration",
            "500ms",
            "Longest time to open a connection. Longer bears slow networks; shorter leaves a dead member sooner.",
        ),
        UrlOption::new(
            "response_timeout",
            "duration",
            "2s",
            "Longest time for a reply. The client's own limit (ttl/6, at most 2 s) ends an operation too.",
        ),
        UrlOption::new(
            "shared_lease",
            "duration",
            "none",
            "One lease of this ttl for all locks of the client; whole seconds, 2 s to 1 h.",
        ),
        UrlOption::CA,
        UrlOption::CERT,
        UrlOption::KEY,
    ];

    /// Reads a URL and takes this backend's options out of it:
    /// `etcd://[user:password@]host[:port][,host[:port]…][/namespace]`; encrypted with `etcds://`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] if a part is missing, does not belong there or can't be read.
    pub fn from_url(url: &mut StoreUrl) -> Result<Self> {
        if url.hosts.is_empty() {
            return invalid("the URL names no server; write for example `etcd://localhost`");
        }
        let mut config = Self {
            servers: url.hosts.iter().map(|host| host.with_default_port(PORT)).collect(),
            user: url.user.clone(),
            password: url.password.clone(),
            tls: url.scheme == "etcds",
            ..Self::default()
        };
        if !url.path.is_empty() {
            config.namespace.clone_from(&url.path);
        }
        if let Some(limit) = url.take_duration("connect_timeout")? {
            config.connect_timeout = limit;
        }
        if let Some(limit) = url.take_duration("response_timeout")? {
            config.response_timeout = limit;
        }
        config.shared_lease = url.take_duration("shared_lease")?;
        config.ca = url.take("ca").map(Into::into);
        config.cert = url.take("cert").map(Into::into);
        config.key = url.take("key").map(Into::into);
        config.check().map_err(|error| Error::new(ErrorKind::InvalidUrl, error.message()))?;
        Ok(config)
    }
}

fn invalid<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidUrl, message))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(url: &str) -> Result<EtcdConfig> {
        let mut url = StoreUrl::parse(url)?;
        let config = EtcdConfig::from_url(&mut url)?;
        url.refuse_unknown(EtcdConfig::URL_OPTIONS)?;
        Ok(config)
    }

    #[test]
    fn every_part_is_read() {
        let config = read(
            "etcds://me:p%40ss@a,[::1]:7/team/locks?connect_timeout=2s&response_timeout=500ms&shared_lease=30s&ca=/ca.pem&cert=/c.pem&key=/k.pem",
        )
        .unwrap();
        assert_eq!(config.servers, ["a:2379", "[::1]:7"]);
        assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("me"), Some("p@ss")));
        assert_eq!((config.namespace.as_str(), config.tls), ("team/locks", true));
        assert_eq!(config.connect_timeout, Duration::from_secs(2));
        assert_eq!(config.response_timeout, Duration::from_millis(500));
        assert_eq!(config.shared_lease, Some(Duration::from_secs(30)));
        assert_eq!(config.ca.as_deref(), Some(std::path::Path::new("/ca.pem")));
        assert_eq!(config.cert.as_deref(), Some(std::path::Path::new("/c.pem")));
        assert_eq!(config.key.as_deref(), Some(std::path::Path::new("/k.pem")));
        let config = read("etcd://h").unwrap();
        assert_eq!((config.namespace.as_str(), config.shared_lease), ("distlock", None));
    }

    #[test]
    fn bad_urls_say_what_to_write() {
        for (url, part) in [
            ("etcd:", "names no server"),
            ("etcd://h?respons_timeout=1s", "did you mean `response_timeout`"),
            ("etcd://h?response_timeout=5ms", "10ms"),
            ("etcd://h?shared_lease=1s", "2s"),
            ("etcd://h?shared_lease=2500ms", "whole seconds"),
            ("etcd://:secret@h", "no user"),
            ("etcd://h?ca=/ca.pem", "etcds://"),
            ("etcds://h?cert=/c.pem", "go together"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn no_text_form_shows_the_password() {
        let config = read("etcd://me:secret@h").unwrap();
        assert!(!format!("{config:?}").contains("secret"));
    }
}
