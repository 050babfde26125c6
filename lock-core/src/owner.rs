//! Who holds or wants a lock.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::error::{Error, ErrorKind};

/// One attempt to take one lock: 128 random bits, minted by the client before the first byte is sent.
///
/// Never a host, process, thread or connection: two handles in one process exclude each other, and
/// a request that arrives late can only ever touch the attempt that sent it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(Uuid);

impl OwnerId {
    /// A new random owner.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The owner's 16 bytes, for a store's record.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The owner with these bytes, from a store's record; `None` unless there are 16 of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Uuid::from_slice(bytes).ok().map(Self)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_simple().fmt(f)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for OwnerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Uuid::try_parse(text).map(Self).map_err(|source| {
            Error::new(ErrorKind::Corrupt, format!("`{text}` is not an owner id (32 hex digits)"))
                .caused_by(source)
        })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for OwnerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for OwnerId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_read_back() {
        let owner = OwnerId::random();
        assert_eq!(owner.to_string().parse::<OwnerId>().unwrap(), owner);
        assert_eq!(OwnerId::from_bytes(owner.as_bytes()), Some(owner));
        assert_eq!(OwnerId::from_bytes(b"short"), None);
    }
}
