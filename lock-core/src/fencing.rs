//! Fencing tokens: numbers that let a resource refuse a holder that came too late.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// A number that rises with every grant of a key, from 1 to `i64::MAX`.
///
/// Pass it along with every write the lock protects and let the resource refuse a token lower than
/// one it has seen (see [`FenceGate`](crate::FenceGate)). Tokens are comparable only within one key
/// of one store; how much the store can survive without repeating one is its [`FenceScope`].
/// In JSON a token is a string, since it can exceed 2^53.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The lowest token.
    pub const MIN: Self = Self(NonZeroU64::MIN);
    /// The highest token: `i64::MAX`, so that it fits a signed column.
    pub const MAX: Self = match NonZeroU64::new(i64::MAX as u64) {
        Some(value) => Self(value),
        None => Self(NonZeroU64::MIN),
    };

    /// The token `value`, or `None` if that is 0 or above [`FencingToken::MAX`].
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(nonzero) if value <= i64::MAX as u64 => Some(Self(nonzero)),
            _ => None,
        }
    }

    /// The token as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The token as a signed number, for a database column.
    #[must_use]
    pub const fn get_i64(self) -> i64 {
        self.0.get().cast_signed()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = Error;

    fn try_from(value: u64) -> Result<Self, Error> {
        Self::new(value).ok_or_else(|| not_a_token(&value))
    }
}

impl TryFrom<i64> for FencingToken {
    type Error = Error;

    fn try_from(value: i64) -> Result<Self, Error> {
        u64::try_from(value).ok().and_then(Self::new).ok_or_else(|| not_a_token(&value))
    }
}

impl FromStr for FencingToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse::<u64>().ok().and_then(Self::new).ok_or_else(|| not_a_token(&text))
    }
}

fn not_a_token(value: &dyn fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("`{value}` is not a fencing token (a whole number from 1 to {})", i64::MAX),
    )
}

#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How much a store survives without repeating or lowering a key's token; each includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FenceScope {
    /// Nothing: a token may be lower than an earlier one. Not for fencing.
    BestEffort,
    /// As long as the process that keeps the state lives.
    Process,
    /// As long as the server instance keeps its data.
    Instance,
    /// A crash, restart or power cut of the server.
    Durable,
    /// The loss of a server: the cluster agrees on every token.
    Cluster,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_one_to_i64_max() {
        assert_eq!(FencingToken::new(0), None);
        assert_eq!(FencingToken::new(u64::MAX), None);
        assert_eq!(FencingToken::new(i64::MAX as u64), Some(FencingToken::MAX));
        assert!(FencingToken::try_from(-1_i64).is_err());
        assert_eq!("42".parse::<FencingToken>().unwrap().get(), 42);
        assert!("042x".parse::<FencingToken>().is_err());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_carries_tokens_as_strings() {
        assert_eq!(serde_json::to_string(&FencingToken::MAX).unwrap(), "\"9223372036854775807\"");
        let back: FencingToken = serde_json::from_str("\"7\"").unwrap();
        assert_eq!(back.get(), 7);
    }
}
