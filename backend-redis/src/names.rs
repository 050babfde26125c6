//! How locks are named in the store.

use distlock_core::LockKey;

/// The names that all clients of one prefix share.
///
/// A record's name is the prefix, `lock:` and the key's bytes as they are, so two keys never share a
/// record. One record is all that a script touches; so whatever braces a key has, it only decides
/// which node of a Cluster keeps it.
#[derive(Debug)]
pub(crate) struct Names {
    records: Vec<u8>,
    channel: Vec<u8>,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            records: format!("{prefix}lock:").into_bytes(),
            channel: format!("{prefix}released").into_bytes(),
        }
    }

    /// The record of a lock.
    pub(crate) fn record(&self, key: &LockKey) -> Vec<u8> {
        [&self.records, key.as_bytes()].concat()
    }

    /// Where releases are announced, by the key's bytes.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.channel
    }
}
