//! What a record says.

use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, FencingToken, Metadata, Result};

/// The first word of every record. Another one belongs to a later version, or to somebody else.
const VERSION: &str = "1";
const EXCLUSIVE: &str = "exclusive";

/// What a record says: `1 exclusive KIND TTL BASE LABELS`, with the ttl in microseconds.
///
/// How many may hold a lock, and in which mode, follows from the records in front: a later version that
/// lets several in needs another second word, and no other layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    /// What the token is above the record's create revision: the token floor when it was written.
    pub(crate) base: u64,
    pub(crate) metadata: Metadata,
}

/// What keeps a record alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its lease.
    Lease,
    /// Being written anew before its ttl is over. Its lease only clears it away when nobody waits.
    Writes,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Writes => "writes",
        }
    }
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, ttl, base) = (self.kind.word(), self.ttl.as_micros(), self.base);
        format!("{VERSION} {EXCLUSIVE} {kind} {ttl} {base} {}", self.metadata.encode()).into_bytes()
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let mut words = text.splitn(6, ' ');
        if words.next()? != VERSION || words.next()? != EXCLUSIVE {
            return None;
        }
        let word = words.next()?;
        let kind = [Kind::Lease, Kind::Writes].into_iter().find(|kind| kind.word() == word)?;
        let ttl = Duration::from_micros(words.next()?.parse().ok()?);
        let base = words.next()?.parse().ok()?;
        Some(Self { kind, ttl, base, metadata: Metadata::decode(words.next()?) })
    }

    /// The token of the record that was created at this revision.
    pub(crate) fn token(&self, created: i64) -> Result<FencingToken> {
        let token = u64::try_from(created).ok().and_then(|created| created.checked_add(self.base));
        token.ok_or_else(damaged).and_then(|token| FencingToken::new(token).ok_or_else(damaged))
    }
}

/// The error for a record that this version can't read.
pub(crate) fn damaged() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the lock's record in front is damaged, of a later version, or not one of this library; look at it with etcdctl, and delete it or force the lock's release",
    )
    .with_effect(Effect::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        for kind in [Kind::Lease, Kind::Writes] {
            for metadata in
                [Metadata::NONE, Metadata::new([("a b".replace(' ', "_").as_str(), "c d")]).unwrap()]
            {
                let record = Record { kind, ttl: Duration::from_micros(500_001), base: 7, metadata };
                assert_eq!(Record::decode(&record.encode()), Some(record));
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_not_guessed() {
        for value in
            [&b""[..], b"2 exclusive lease 1 0 ", b"1 shared lease 1 0 ", b"1 exclusive lease 1 0", b"\xff"]
        {
            assert_eq!(Record::decode(value), None);
        }
    }

    #[test]
    fn a_token_that_is_none_is_damage() {
        let record =
            Record { kind: Kind::Lease, ttl: Duration::ZERO, base: u64::MAX, metadata: Metadata::NONE };
        assert_eq!(record.token(5).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_read_back_and_nothing_else_is_half_read(
            micros in any::<u64>(),
            base in any::<u64>(),
            writes in any::<bool>(),
            labels in any::<String>(),
            cut in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            created in any::<i64>(),
        ) {
            let kind = if writes { Kind::Writes } else { Kind::Lease };
            let record = Record { kind, ttl: Duration::from_micros(micros), base, metadata: Metadata::decode(&labels) };
            let encoded = record.encode();
            prop_assert_eq!(Record::decode(&encoded), Some(record.clone()));
            if let Ok(token) = record.token(created) {
                prop_assert_eq!(u128::from(token.get()), u128::from(base) + created.unsigned_abs() as u128);
            }
            let at = cut.index(encoded.len());
            let _ = Record::decode(&encoded[..at]);
            let mut damaged = encoded;
            damaged[at] = byte;
            let _ = Record::decode(&damaged);
        }

        #[test]
        fn no_value_makes_the_reader_panic(value in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Record::decode(&value);
        }
    }
}
