//! The address of a store.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::escape;
use crate::url_option::UrlOption;

/// A store's address: `scheme://[user[:password]@]host[:port][,host[:port]…][/path][?options]`, or
/// `scheme:path[?options]` for stores without hosts. All parts are percent-encoded.
///
/// Its text forms never show the password.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreUrl {
    /// The scheme, in lower case.
    pub scheme: String,
    /// The user name.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The servers, in the order given.
    pub hosts: Vec<Host>,
    /// What follows the hosts, decoded, without its leading slash; of `scheme:path`, and of
    /// `scheme:///path` with the slash, all of it.
    pub path: String,
    options: BTreeMap<String, String>,
}

/// One server's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Host {
    /// Name or IP address, without the brackets of IPv6.
    pub name: String,
    /// Port, if given.
    pub port: Option<u16>,
}

impl Host {
    /// `name:port`, with the port that the store uses by default when none was given.
    #[must_use]
    pub fn with_default_port(&self, port: u16) -> String {
        let port = self.port.unwrap_or(port);
        if self.name.contains(':') {
            format!("[{}]:{port}", self.name)
        } else {
            format!("{}:{port}", self.name)
        }
    }
}

impl StoreUrl {
    /// Reads an address.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`], saying which part is wrong and never showing the password.
    pub fn parse(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return invalid(
                "the store's URL has no scheme; write for example `sqlite:locks.db` or `memory:`",
            );
        };
        let plausible = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(plausible) {
            return invalid(
                "the store's URL does not start with a scheme; write for example `sqlite:locks.db` or `memory:`",
            );
        }
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
        let mut url = Self {
            scheme: scheme.to_ascii_lowercase(),
            user: None,
            password: None,
            hosts: Vec::new(),
            path: String::new(),
            options: options(query)?,
        };
        match rest.strip_prefix("//") {
            Some(rest) => url.read_authority(rest)?,
            None => url.path = decoded(rest, "path")?,
        }
        Ok(url)
    }

    /// Takes an option out, so that [`StoreUrl::refuse_unknown`] sees only what nobody understood.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.options.remove(name)
    }

    /// Takes an option out and reads it as a duration such as `500ms` or `1m 30s`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] if it is no duration.
    pub fn take_duration(&mut self, name: &str) -> Result<Option<Duration>> {
        self.take(name)
            .map(|value| {
                humantime::parse_duration(&value)
                    .map_err(|_| bad_option(name, &value, "a duration such as 500ms, 10s or 2m"))
            })
            .transpose()
    }

    /// Takes an option out and reads it as a whole number.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] if it is none.
    pub fn take_number<N: FromStr>(&mut self, name: &str) -> Result<Option<N>> {
        self.take(name)
            .map(|value| value.parse().map_err(|_| bad_option(name, &value, "a whole number")))
            .transpose()
    }

    /// Takes an option out and reads it as a switch: `on`, `true`, `1`, `off`, `false` or `0`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] if it is none.
    pub fn take_switch(&mut self, name: &str) -> Result<Option<bool>> {
        self.take(name)
            .map(|value| match value.as_str() {
                "on" | "true" | "1" => Ok(true),
                "off" | "false" | "0" => Ok(false),
                _ => Err(bad_option(name, &value, "`on` or `off`")),
            })
            .transpose()
    }

    /// Fails if an option is left that nobody took, and suggests the nearest of `known`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`] for the first option that is left.
    pub fn refuse_unknown(&self, known: &[UrlOption]) -> Result<()> {
        self.refuse_other_than(&[], known)
    }

    /// Fails if an option is left that is not in `allowed`, and suggests the nearest of `known`.
    pub(crate) fn refuse_other_than(&self, allowed: &[UrlOption], known: &[UrlOption]) -> Result<()> {
        let is_allowed = |name: &str| allowed.iter().any(|option| option.name == name);
        let Some(name) = self.options.keys().find(|name| !is_allowed(name)) else { return Ok(()) };
        let known: Vec<&str> = known.iter().map(|option| option.name).collect();
        let advice = match nearest(name, known.iter().copied()) {
            Some(near) => format!("; did you mean `{near}`?"),
            None if known.is_empty() => "; it takes none".to_owned(),
            None => format!("; it takes {}", known.join(", ")),
        };
        Err(Error::new(
            ErrorKind::InvalidUrl,
            format!("`{}:` has no option `{}`{advice}", self.scheme, name.escape_debug()),
        ))
    }

    fn read_authority(&mut self, rest: &str) -> Result<()> {
        let (authority, path) =
            rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        self.path = decoded(path, "path")?;
        if authority.is_empty() && !self.path.is_empty() {
            // `scheme:///var/x` names a file from the root, which is another than `scheme:var/x`.
            self.path.insert(0, '/');
        }
        // The last `@`: a password may hold one that nobody encoded.
        let (userinfo, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(info, hosts)| (Some(info), hosts));
        if let Some(info) = userinfo {
            let (user, password) =
                info.split_once(':').map_or((info, None), |(user, password)| (user, Some(password)));
            self.user = (!user.is_empty()).then(|| decoded(user, "user name")).transpose()?;
            self.password = password.map(|password| decoded(password, "password")).transpose()?;
        }
        if !hosts.is_empty() {
            self.hosts = hosts.split(',').map(host).collect::<Result<_>>()?;
        }
        Ok(())
    }
}

/// The name among `known` that `name` is probably a misspelling of.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= 0.5)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

fn host(text: &str) -> Result<Host> {
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((name, after)) = rest.split_once(']') else {
            return invalid("an IPv6 address in the store's URL lacks its closing bracket");
        };
        let port = match after {
            "" => None,
            _ => match after.strip_prefix(':') {
                Some(port) => Some(port),
                None => return invalid("after an IPv6 address in the store's URL comes `:port` or nothing"),
            },
        };
        (name.to_owned(), port)
    } else {
        let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
        (decoded(name, "host")?, port)
    };
    if name.is_empty() {
        return invalid("a host in the store's URL is empty");
    }
    let port = port
        .map(|port| {
            port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(|| {
                // Not the text itself: with a forgotten `@` it is a password.
                Error::new(ErrorKind::InvalidUrl, "a port in the store's URL is not a number from 1 to 65535 (a password must be followed by `@`, and its `/`, `?` and `#` be percent-encoded)")
            })
        })
        .transpose()?;
    Ok(Host { name, port })
}

fn options(query: &str) -> Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, "on"));
        let name = decoded(name, "option name")?;
        if options.insert(name.clone(), decoded(value, "option")?).is_some() {
            return Err(Error::new(
                ErrorKind::InvalidUrl,
                format!("the option `{}` is given twice", name.escape_debug()),
            ));
        }
    }
    Ok(options)
}

fn decoded(text: &str, part: &str) -> Result<String> {
    escape::decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidUrl,
            format!("the {part} in the store's URL is not percent-encoded UTF-8; write a literal percent sign as %25"),
        )
    })
}

fn bad_option(name: &str, value: &str, wanted: &str) -> Error {
    Error::new(
        ErrorKind::InvalidUrl,
        format!("the option `{name}` is `{}`, but must be {wanted}", value.escape_debug()),
    )
}

fn invalid<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidUrl, message))
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme)?;
        if self.hosts.is_empty() && self.user.is_none() {
            return f.write_str(&self.path);
        }
        f.write_str("//")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        for (i, host) in self.hosts.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}", host.name)?;
            if let Some(port) = host.port {
                write!(f, ":{port}")?;
            }
        }
        if !self.path.is_empty() {
            write!(f, "/{}", self.path)?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_grammar() {
        let mut url = StoreUrl::parse("Redis://me:p%40ss@a:1,[::1]:2,c/db%2F1?ttl=5s&tls&n=3").unwrap();
        assert_eq!(url.scheme, "redis");
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("me"), Some("p@ss")));
        let hosts: Vec<_> = url.hosts.iter().map(|host| host.with_default_port(9)).collect();
        assert_eq!(hosts, ["a:1", "[::1]:2", "c:9"]);
        assert_eq!(url.path, "db/1");
        assert_eq!(url.take_duration("ttl").unwrap(), Some(Duration::from_secs(5)));
        assert_eq!(url.take_switch("tls").unwrap(), Some(true));
        assert_eq!(url.take_number::<u32>("n").unwrap(), Some(3));
        assert!(url.refuse_unknown(&[]).is_ok());
    }

    #[test]
    fn paths_without_hosts() {
        assert_eq!(StoreUrl::parse("sqlite:locks.db").unwrap().path, "locks.db");
        assert_eq!(StoreUrl::parse("sqlite:/var/lib/a b.db").unwrap().path, "/var/lib/a b.db");
        assert_eq!(StoreUrl::parse("sqlite:///var/a.db").unwrap().path, "/var/a.db");
        assert_eq!(StoreUrl::parse("memory:").unwrap().path, "");
        assert_eq!(StoreUrl::parse("memory://").unwrap().path, "");
    }

    #[test]
    fn text_forms_never_show_the_password() {
        let url = StoreUrl::parse("redis://me:secret@h/0?x=1").unwrap();
        assert!(!format!("{url} {url:?}").contains("secret"));
        for bad in ["redis://me:secret@h:port", "redis://me:secret", "secret", "redis://me:%ZZsecret@h"] {
            let error = StoreUrl::parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
            assert_eq!(error.kind(), ErrorKind::InvalidUrl);
        }
    }

    #[test]
    fn misspelt_options_suggest_the_right_one() {
        let url = StoreUrl::parse("sqlite:x?tll=5s").unwrap();
        let error = url.refuse_unknown(&crate::registry::COMMON_OPTIONS).unwrap_err();
        assert!(error.to_string().contains("did you mean `ttl`"), "{error}");
        assert!(StoreUrl::parse("sqlite:x?a=1&a=2").is_err());
        let mut url = StoreUrl::parse("sqlite:x?ttl=soon").unwrap();
        assert!(url.take_duration("ttl").unwrap_err().to_string().contains("duration"));
    }
}
