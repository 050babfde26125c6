//! Reading a store's URL.

use distlock_core::{Error, ErrorKind, Result, StoreUrl, UrlOption};

use super::{Access, ZkConfig};

/// The port of a server that none is given for.
const PORT: u16 = 2181;

impl ZkConfig {
    /// The URL options this backend takes.
    pub const URL_OPTIONS: &'static [UrlOption] = &[
        UrlOption::new(
            "session_timeout",
            "duration",
            "10s",
            "After so much silence the servers end the session; 500 ms to 10 min. Longer bears longer outages and longer ttls; shorter frees sooner what dead programs leave. Servers clamp it.",
        ),
        UrlOption::new("connect_timeout", "duration", "5s", "Longest time to open a session."),
        UrlOption::new(
            "response_timeout",
            "duration",
            "2s",
            "Longest time for an answer. The client's own limit (ttl/6, at most 2 s) ends an operation too.",
        ),
        UrlOption::new(
            "acl",
            "open or creator",
            "creator with a user, else open",
            "Who may use the nodes: anybody, or whoever has the same credentials. In code: `access`.",
        ),
        UrlOption::new(
            "ca",
            "file",
            "none",
            "The certificate authorities to trust, in PEM format; needed with `zks://`.",
        ),
        UrlOption::CERT,
        UrlOption::KEY,
    ];

    /// Reads a URL and takes this backend's options out of it:
    /// `zk://[user:password@]host[:port][,host[:port]…][/path]`; encrypted with `zks://`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] if a part is missing, does not belong there or can't be read;
    /// [`ErrorKind::FeatureDisabled`] for `zks://` without the feature `tls`.
    pub fn from_url(url: &mut StoreUrl) -> Result<Self> {
        if url.hosts.is_empty() {
            return invalid("the URL names no server; write for example `zk://localhost`");
        }
        let mut config = Self::new(url.hosts.iter().map(|host| host.with_default_port(PORT)));
        (config.user, config.password) = (url.user.clone(), url.password.clone());
        config.tls = url.scheme == "zks";
        let path = url.path.trim_matches('/');
        if !path.is_empty() {
            config.path = format!("/{path}");
        }
        if let Some(timeout) = url.take_duration("session_timeout")? {
            config.session_timeout = timeout;
        }
        if let Some(limit) = url.take_duration("connect_timeout")? {
            config.connect_timeout = limit;
        }
        if let Some(limit) = url.take_duration("response_timeout")? {
            config.response_timeout = limit;
        }
        config.access = match url.take("acl").as_deref() {
            None => None,
            Some("open") => Some(Access::Open),
            Some("creator") => Some(Access::Creator),
            Some(_) => return invalid("the option `acl` must be `open` or `creator`"),
        };
        config.ca = url.take("ca").map(Into::into);
        config.cert = url.take("cert").map(Into::into);
        config.key = url.take("key").map(Into::into);
        config.check().map_err(|error| match error.kind() {
            ErrorKind::InvalidOptions => Error::new(ErrorKind::InvalidUrl, error.message()),
            _ => error,
        })?;
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

    fn read(url: &str) -> Result<ZkConfig> {
        let mut url = StoreUrl::parse(url)?;
        let config = ZkConfig::from_url(&mut url)?;
        url.refuse_unknown(ZkConfig::URL_OPTIONS)?;
        Ok(config)
    }

    #[test]
    fn every_part_is_read() {
        let config = read("zk://me:p%40ss@a,[::1]:7/services/locks?session_timeout=20s&connect_timeout=2s&response_timeout=500ms").unwrap();
        assert_eq!(config.servers, ["a:2181", "[::1]:7"]);
        assert_eq!(config.path, "/services/locks");
        assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("me"), Some("p@ss")));
        assert_eq!(config.session_timeout, Duration::from_secs(20));
        assert_eq!(
            (config.connect_timeout, config.response_timeout),
            (Duration::from_secs(2), Duration::from_millis(500))
        );
        assert_eq!(config.effective_access(), Access::Creator);
        assert_eq!(read("zk://me:x@h?acl=open").unwrap().effective_access(), Access::Open);
        let plain = read("zk://h/").unwrap();
        assert_eq!(
            (plain.path.as_str(), plain.effective_access(), plain.tls),
            ("/distlock", Access::Open, false)
        );
    }

    #[test]
    fn bad_urls_say_what_to_write() {
        for (url, part) in [
            ("zk:", "names no server"),
            ("zk://h/zookeeper", "belongs to the servers"),
            ("zk://h/a//b", "no empty parts"),
            ("zk://h/a/../b", "no node's"),
            ("zk://h?sesion_timeout=5s", "did you mean `session_timeout`"),
            ("zk://h?session_timeout=5ms", "500ms"),
            ("zk://h?acl=closed", "`open` or `creator`"),
            ("zk://h?acl=creator", "need a user"),
            ("zk://me@h", "go together"),
            ("zk://h?ca=/ca.pem", "zks://"),
            ("zks://h", "needs `ca`"),
            ("zks://h?ca=/ca.pem&cert=/c.pem", "go together"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn no_text_form_shows_the_password() {
        let config = read("zk://me:secret@h").unwrap();
        assert!(!format!("{config:?}").contains("secret"));
    }
}
