//! A prefix that keeps one application's keys apart from another's.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::key::LockKey;

/// A prefix of keys: the key `k` in the namespace `n` is the store's key `n/k`.
///
/// Two namespaces never share a lock: `%` and `/` inside the name are stored as `%25` and `%2F`, so
/// that the first slash ends it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Namespace {
    name: String,
    prefix: Vec<u8>,
}

impl Namespace {
    /// Longest name, in bytes.
    pub const MAX_LEN: usize = 128;

    /// The namespace called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOptions`] if it is empty or longer than [`Namespace::MAX_LEN`].
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > Self::MAX_LEN {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                format!("a namespace has 1 to {} bytes, this one has {}", Self::MAX_LEN, name.len()),
            ));
        }
        let escaped = name.replace('%', "%25").replace('/', "%2F");
        Ok(Self { name: name.to_owned(), prefix: format!("{escaped}/").into_bytes() })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The bytes in front of every key.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The store's key for `key`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidKey`] if both together are longer than [`LockKey::MAX_LEN`].
    pub fn outer(&self, key: &LockKey) -> Result<LockKey> {
        LockKey::new([self.prefix.as_slice(), key.as_bytes()].concat()).map_err(|error| error.for_key(key))
    }

    /// The key of this namespace that is stored as `key`, if it is one.
    #[must_use]
    pub fn inner(&self, key: &LockKey) -> Option<LockKey> {
        key.as_bytes().strip_prefix(self.prefix.as_slice()).and_then(|rest| LockKey::new(rest).ok())
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespace({})", self.name)
    }
}

impl FromStr for Namespace {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_never_share_a_key() {
        let outer =
            |name: &str, key: &str| Namespace::new(name).unwrap().outer(&LockKey::new(key).unwrap()).unwrap();
        assert_ne!(outer("a", "b/c"), outer("a/b", "c"));
        assert_ne!(outer("a%2F", "b"), outer("a/", "b"));
        assert_eq!(outer("billing", "invoice/42").to_string(), "billing/invoice/42");
    }

    #[test]
    fn keys_come_back_and_strangers_do_not() {
        let namespace = Namespace::new("a").unwrap();
        let key = LockKey::new("b/c").unwrap();
        assert_eq!(namespace.inner(&namespace.outer(&key).unwrap()), Some(key.clone()));
        assert_eq!(namespace.inner(&key), None);
    }

    #[test]
    fn the_prefix_counts_in_the_limit() {
        let namespace = Namespace::new("ns").unwrap();
        assert!(namespace.outer(&LockKey::new(vec![b'k'; 509]).unwrap()).is_ok());
        let error = namespace.outer(&LockKey::new(vec![b'k'; 510]).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidKey);
    }
}
