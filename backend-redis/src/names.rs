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
    fences: Vec<u8>,
    channel: Vec<u8>,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            records: format!("{prefix}lock:").into_bytes(),
            fences: format!("{prefix}fence:").into_bytes(),
            channel: format!("{prefix}released").into_bytes(),
        }
    }

    /// The record of a lock.
    pub(crate) fn record(&self, key: &LockKey) -> Vec<u8> {
        [&self.records, key.as_bytes()].concat()
    }

    /// Where a gate keeps the newest token of a lock.
    pub(crate) fn fence(&self, key: &LockKey) -> Vec<u8> {
        [&self.fences, key.as_bytes()].concat()
    }

    /// The key of a record, or `None` if the name is none of ours.
    pub(crate) fn key(&self, record: &[u8]) -> Option<LockKey> {
        LockKey::new(record.strip_prefix(self.records.as_slice())?).ok()
    }

    /// What SCAN takes to find the records of all keys that start with `prefix`.
    pub(crate) fn pattern(&self, prefix: &[u8]) -> Vec<u8> {
        let mut pattern = Vec::with_capacity(self.records.len() + prefix.len() + 1);
        for byte in self.records.iter().chain(prefix) {
            if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\') {
                pattern.push(b'\\');
            }
            pattern.push(*byte);
        }
        pattern.push(b'*');
        pattern
    }

    /// Where releases are announced, by the key's bytes.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.channel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_its_key_back_and_a_stranger_s_gives_none() {
        let names = Names::new("a:");
        let key = LockKey::new(b"\xff*\0").unwrap();
        assert_eq!(names.key(&names.record(&key)), Some(key));
        assert_eq!(names.key(b"a:released"), None);
        assert_eq!(names.key(b"a:lock:"), None);
    }

    #[test]
    fn wildcards_in_a_prefix_mean_themselves() {
        assert_eq!(Names::new("[a]").pattern(br"x?\*"), br"\[a\]lock:x\?\\\**");
    }
}
