//! The name of a lock.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::escape;

/// The name of a lock: 1 to 512 bytes, of any value.
///
/// Keys are compared byte by byte; backends map them injectively, so two different keys never
/// share a lock. Text keys are their UTF-8 bytes, without normalisation or case folding.
///
/// [`Display`](fmt::Display) shows printable text as it is and every other byte, and `%`, as `%XX`;
/// [`LockKey::from_escaped`] (and `FromStr`) reads that form back.
///
/// ```
/// use distlock_core::LockKey;
/// let key = LockKey::new(*b"a\0b")?;
/// assert_eq!(key.to_string(), "a%00b");
/// assert_eq!(LockKey::from_escaped("a%00b")?, key);
/// # Ok::<(), distlock_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey(Arc<[u8]>);

impl LockKey {
    /// Longest key, in bytes; a namespace counts.
    pub const MAX_LEN: usize = 512;

    /// The key made of these bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidKey`] if it is empty or longer than [`LockKey::MAX_LEN`].
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Err(Error::new(ErrorKind::InvalidKey, "the key is empty; give it at least one byte"));
        }
        if bytes.len() > Self::MAX_LEN {
            return Err(Error::new(
                ErrorKind::InvalidKey,
                format!(
                    "the key is {} bytes long and the limit is {}; shorten it or hash it",
                    bytes.len(),
                    Self::MAX_LEN
                ),
            ));
        }
        Ok(Self(Arc::from(bytes)))
    }

    /// Reads the form that [`Display`](fmt::Display) writes: `%XX` is one byte, all else is itself.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidKey`] for a `%` that two hex digits do not follow, and as [`LockKey::new`].
    pub fn from_escaped(text: &str) -> Result<Self, Error> {
        let bytes = escape::decode(text).map_err(|at| {
            Error::new(
                ErrorKind::InvalidKey,
                format!("`%` at byte {at} of the key is not followed by two hex digits; write a literal percent sign as %25"),
            )
        })?;
        Self::new(bytes)
    }

    /// The key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape::encode(&self.0, f)
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl FromStr for LockKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::from_escaped(text)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for LockKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for LockKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::from_escaped(&text).map_err(serde::de::Error::custom)
    }
}

/// What a lock can be named by: text and bytes taken as they are, or a [`LockKey`].
pub trait IntoKey {
    /// The key.
    ///
    /// # Errors
    /// As [`LockKey::new`].
    fn into_key(self) -> Result<LockKey, Error>;
}

impl IntoKey for LockKey {
    fn into_key(self) -> Result<LockKey, Error> {
        Ok(self)
    }
}

impl IntoKey for &LockKey {
    fn into_key(self) -> Result<LockKey, Error> {
        Ok(self.clone())
    }
}

macro_rules! into_key_by_bytes {
    ($($type:ty),*) => {$(
        impl IntoKey for $type {
            fn into_key(self) -> Result<LockKey, Error> {
                LockKey::new(self)
            }
        }
    )*};
}

into_key_by_bytes!(&str, String, &String, &[u8], Vec<u8>, &Vec<u8>);

impl<const N: usize> IntoKey for &[u8; N] {
    fn into_key(self) -> Result<LockKey, Error> {
        LockKey::new(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_oversized_keys_say_what_to_do() {
        let empty = LockKey::new("").unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::InvalidKey);
        let long = LockKey::new(vec![b'x'; 513]).unwrap_err();
        assert!(long.to_string().contains("513") && long.to_string().contains("512"), "{long}");
        assert!(LockKey::new(vec![b'x'; 512]).is_ok());
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_escaped_form_is_reversible(bytes in prop::collection::vec(any::<u8>(), 1..=512)) {
            let key = LockKey::new(&bytes).unwrap();
            prop_assert_eq!(LockKey::from_escaped(&key.to_string()).unwrap(), key);
        }

        #[test]
        fn printable_text_stays_readable(text in "[a-zA-Z0-9/_. äöü-]{1,40}") {
            prop_assert_eq!(LockKey::new(&text).unwrap().to_string(), text);
        }
    }
}
