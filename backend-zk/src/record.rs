//! What a place's node says about its owner.

use std::time::Duration;

use distlock_core::Metadata;

/// What the data of our nodes start with; other programs write what they like.
const MARK: &str = "distlock/1 ";

/// What a place's node says about its owner: `distlock/1 TTL_MS LABELS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// After this long without a write, the first waiter may take the lock over.
    pub(crate) ttl: Duration,
    pub(crate) metadata: Metadata,
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        format!("{MARK}{} {}", self.ttl.as_millis(), self.metadata.encode()).into_bytes()
    }

    /// Reads a node's data; `None` if another program wrote them, whose locks have no ttl.
    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?.strip_prefix(MARK)?;
        let (ttl, metadata) = text.split_once(' ').unwrap_or((text, ""));
        let ttl = Duration::from_millis(ttl.parse().ok()?);
        Some(Self { ttl, metadata: Metadata::decode(metadata) })
    }

    /// How long a waiter counts before it takes over: longer than the holder by the difference that
    /// two clocks may have.
    pub(crate) fn patience(&self) -> Duration {
        self.ttl + self.ttl / 20 + Duration::from_millis(20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_and_others_are_none() {
        let metadata = Metadata::new([("job", "a b"), ("n", "1")]).unwrap();
        let record = Record { ttl: Duration::from_millis(600), metadata };
        assert_eq!(Record::decode(&record.encode()), Some(record.clone()));
        let bare = Record { metadata: Metadata::NONE, ..record };
        assert_eq!(Record::decode(&bare.encode()), Some(bare));
        for other in [&b"10.0.0.1"[..], b"", b"distlock/1 x y", b"\xff"] {
            assert_eq!(Record::decode(other), None);
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_read_back_and_no_data_make_the_reader_panic(
            millis in any::<u64>(),
            labels in any::<String>(),
            data in prop::collection::vec(any::<u8>(), 0..60),
            cut in any::<prop::sample::Index>(),
        ) {
            let record = Record { ttl: Duration::from_millis(millis), metadata: Metadata::decode(&labels) };
            let encoded = record.encode();
            prop_assert_eq!(Record::decode(&encoded), Some(record.clone()));
            prop_assert!(record.patience() > record.ttl);
            for data in [&data[..], &encoded[..cut.index(encoded.len())], &[MARK.as_bytes(), &data].concat()] {
                if let Some(read) = Record::decode(data) {
                    let _ = read.patience();
                }
            }
        }
    }
}
