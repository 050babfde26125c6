//! How locks are named in the store.

use distlock_core::LockKey;

use crate::hash_slot::{crc16, slot_of};

/// Into so many groups the locks of a Cluster are divided: enough to spread over its nodes evenly, and
/// few enough that one script renews many locks and that a listener can hear of all of them.
const GROUPS: u16 = 256;

/// The names that all clients of one prefix share.
///
/// A record's name is the prefix, `lock:` and the key's bytes as they are, so two keys never share a
/// record. One record is all that a script that takes or frees a lock touches.
///
/// In a Cluster a hash tag of ours, the number of the key's group, stands behind the prefix. It is the
/// first tag of the name, so braces in a key decide nothing. It follows from the key, so that two
/// keys don't share a record there either. Record and channel of a group live on the same node.
#[derive(Debug)]
pub(crate) struct Names {
    prefix: String,
    has_groups: bool,
}

impl Names {
    /// The names on a server that has all of them.
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), has_groups: false }
    }

    /// The names in a Cluster. The prefix has no braces.
    pub(crate) fn in_groups(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), has_groups: true }
    }

    /// The record of a lock.
    pub(crate) fn record(&self, key: &LockKey) -> Vec<u8> {
        let mut name = self.start(self.has_groups.then(|| group_of(key)));
        name.extend_from_slice(b"lock:");
        name.extend_from_slice(key.as_bytes());
        name
    }

    /// Where releases are announced to everybody, by the key's bytes.
    pub(crate) fn channel(&self) -> Vec<u8> {
        self.channel_of(None)
    }

    /// Where releases of the key's group are announced on the node that has it; empty if there are
    /// no groups.
    pub(crate) fn shard_channel(&self, key: &LockKey) -> Vec<u8> {
        if self.has_groups { self.channel_of(Some(group_of(key))) } else { Vec::new() }
    }

    /// All channels of groups.
    pub(crate) fn shard_channels(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..GROUPS).filter(|_| self.has_groups).map(|group| self.channel_of(Some(group)))
    }

    /// The slots in which there are locks.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u16> {
        self.shard_channels().map(|channel| slot_of(&channel))
    }

    fn channel_of(&self, group: Option<u16>) -> Vec<u8> {
        let mut name = self.start(group);
        name.extend_from_slice(b"released");
        name
    }

    fn start(&self, group: Option<u16>) -> Vec<u8> {
        let tag = group.map(|group| format!("{{{group}}}")).unwrap_or_default();
        [self.prefix.as_bytes(), tag.as_bytes()].concat()
    }
}

fn group_of(key: &LockKey) -> u16 {
    crc16(key.as_bytes()) % GROUPS
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key(name: &str) -> LockKey {
        LockKey::new(name).unwrap()
    }

    #[test]
    fn a_record_and_its_channel_share_a_slot_whatever_the_key_is() {
        let names = Names::in_groups("distlock:");
        let slots: HashSet<_> = names.slots().collect();
        for name in ["a", "{a}b", "a{b", "{}", "}{", "{7}", "lock:{7}lock:x", "ü{"] {
            let slot = slot_of(&names.record(&key(name)));
            assert_eq!(slot, slot_of(&names.shard_channel(&key(name))), "{name}");
            assert!(slots.contains(&slot), "{name}");
        }
    }

    #[test]
    fn two_keys_have_two_records() {
        let tricky = ["a", "{a}", "{1}lock:a", "1}lock:a", "lock:a", "}", "{", "{}", "a{", "released"];
        for names in [Names::new("p:"), Names::in_groups("p:")] {
            let records: HashSet<_> = tricky.iter().map(|name| names.record(&key(name))).collect();
            assert_eq!(records.len(), tricky.len());
        }
    }

    #[test]
    fn groups_spread_over_three_and_over_sixteen_nodes() {
        let names = Names::in_groups("distlock:");
        for nodes in [3_usize, 16] {
            let mut counts = vec![0; nodes];
            for slot in names.slots() {
                counts[usize::from(slot) * nodes / 16384] += 1;
            }
            let fair = usize::from(GROUPS) / nodes;
            assert!(counts.iter().all(|count| (fair / 3..=fair * 2).contains(count)), "{counts:?}");
        }
    }
}
