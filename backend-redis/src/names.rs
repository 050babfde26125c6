//! How locks are named in the store.

use std::io::Write;

use distlock_core::LockKey;

use crate::hash_slot::{crc16, slot_of};

/// Into so many groups the locks of a Cluster are divided: enough to spread over its nodes evenly, and
/// few enough that one script renews many locks and that a listener can hear of all of them.
const GROUPS: u16 = 256;

/// What the names of channels end with, before the lane.
const RELEASED: &str = "released";

/// Each channel has so many lanes; every release goes to all of them, in an order that changes, and each
/// client listens to one. Redis serves the listeners of a channel in an order that never changes, and who
/// is always the first to hear of a release gets the lock far more often than who is the last.
const LANES: u8 = 16;

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
    channel: Vec<u8>,
    lane: u8,
    has_groups: bool,
}

impl Names {
    /// The names on a server that has all of them.
    pub(crate) fn new(prefix: &str) -> Self {
        Self::of(prefix, false)
    }

    /// The names in a Cluster. The prefix has no braces.
    pub(crate) fn in_groups(prefix: &str) -> Self {
        Self::of(prefix, true)
    }

    fn of(prefix: &str, has_groups: bool) -> Self {
        let channel = [prefix, RELEASED].concat().into_bytes();
        Self { prefix: prefix.to_owned(), channel, lane: fastrand::u8(..LANES), has_groups }
    }

    /// Whether locks have the same names with `other`.
    pub(crate) fn are_those_of(&self, other: &Self) -> bool {
        self.prefix == other.prefix && self.has_groups == other.has_groups
    }

    /// The record of a lock.
    pub(crate) fn record(&self, key: &LockKey) -> Vec<u8> {
        let mut name = Vec::with_capacity(self.prefix.len() + 16 + key.as_bytes().len());
        self.write_record(key, &mut name);
        name
    }

    /// Puts the name of a lock's record in place of what is in `name`.
    pub(crate) fn write_record(&self, key: &LockKey, name: &mut Vec<u8>) {
        name.clear();
        name.extend_from_slice(self.prefix.as_bytes());
        if self.has_groups {
            // Writing to memory does not fail.
            let _ = write!(name, "{{{}}}", group_of(key));
        }
        name.extend_from_slice(b"lock:");
        name.extend_from_slice(key.as_bytes());
    }

    /// Where a gate keeps the newest token of a lock. In a Cluster the key's own tag decides on which
    /// node, so that it can be where the data is.
    pub(crate) fn fence(&self, key: &LockKey) -> Vec<u8> {
        [self.prefix.as_bytes(), b"fence:", key.as_bytes()].concat()
    }

    /// Where a node of a quorum notes since when it has its data.
    pub(crate) fn birth(&self) -> Vec<u8> {
        [self.prefix.as_bytes(), b"birth"].concat()
    }

    /// The key of a record, or `None` if the name is none of ours.
    pub(crate) fn key(&self, record: &[u8]) -> Option<LockKey> {
        let mut name = record.strip_prefix(self.prefix.as_bytes())?;
        if self.has_groups {
            let end = name.iter().position(|byte| *byte == b'}')?;
            name = &name[end + 1..];
        }
        let key = LockKey::new(name.strip_prefix(b"lock:")?).ok()?;
        (self.record(&key) == record).then_some(key)
    }

    /// What SCAN takes to find the records of all keys that start with `prefix`.
    pub(crate) fn pattern(&self, prefix: &[u8]) -> Vec<u8> {
        let group: &[u8] = if self.has_groups { b"{*}lock:" } else { b"lock:" };
        let mut pattern = [&literal(self.prefix.as_bytes()), group, &literal(prefix)].concat();
        pattern.push(b'*');
        pattern
    }

    /// Where releases are announced to everybody, without the lane.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.channel
    }

    /// Where releases of the key's group are announced on the node that has it, without the lane; empty if
    /// there are no groups.
    pub(crate) fn shard_channel(&self, key: &LockKey) -> Vec<u8> {
        if self.has_groups { self.channel_of(group_of(key)) } else { Vec::new() }
    }

    /// Where this client listens for all.
    pub(crate) fn listening_channel(&self) -> Vec<u8> {
        self.in_lane(self.channel.clone())
    }

    /// Where this client listens for the groups.
    pub(crate) fn shard_channels(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..GROUPS).filter(|_| self.has_groups).map(|group| self.in_lane(self.channel_of(group)))
    }

    /// The slots in which there are locks.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u16> {
        self.shard_channels().map(|channel| slot_of(&channel))
    }

    fn in_lane(&self, channel: Vec<u8>) -> Vec<u8> {
        [channel, format!(":{}", self.lane).into_bytes()].concat()
    }

    fn channel_of(&self, group: u16) -> Vec<u8> {
        [&self.prefix, &tag(group), RELEASED].concat().into_bytes()
    }
}

/// A text that stands for itself in a pattern.
fn literal(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for byte in text {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    escaped
}

fn tag(group: u16) -> String {
    format!("{{{group}}}")
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
    fn releases_go_to_all_lanes() {
        let said = format!("local LANES = {LANES} ");
        assert!(include_str!("scripts/record.lua").contains(&said), "the scripts know as many lanes");
        let names = Names::new("p:");
        let lane = names.listening_channel();
        let lane = lane.strip_prefix(names.channel()).and_then(|lane| lane.strip_prefix(b":")).unwrap();
        assert!(std::str::from_utf8(lane).unwrap().parse::<u8>().unwrap() < LANES);
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

    #[test]
    fn a_name_gives_its_key_back_and_a_stranger_s_gives_none() {
        for names in [Names::new("a:"), Names::in_groups("a:")] {
            for key in [&b"\xff*\0"[..], b"k", b"}lock:k", b"{1}lock:k"] {
                let key = LockKey::new(key).unwrap();
                assert_eq!(names.key(&names.record(&key)), Some(key));
            }
            for stranger in [&b"a:released"[..], b"a:lock:", b"a:{}lock:", b"a:{999}lock:k", b"b:lock:k"] {
                assert_eq!(names.key(stranger), None, "{}", String::from_utf8_lossy(stranger));
            }
        }
        assert_eq!(Names::in_groups("a:").key(b"a:lock:k"), None, "one of a time before the Cluster");
    }

    #[test]
    fn wildcards_in_a_prefix_mean_themselves() {
        assert_eq!(Names::new("[a]").pattern(br"x?\*"), br"\[a\]lock:x\?\\\**");
        assert_eq!(Names::in_groups("a:").pattern(b"x"), b"a:{*}lock:x*");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    /// Bytes that mean something in some store, more often than not, and any others.
    fn key() -> impl Strategy<Value = LockKey> {
        let tricky = prop::collection::vec(prop::sample::select(b"ab/%{}*?[]\\\0\xff.:0 ".to_vec()), 1..8);
        let bytes = prop_oneof![tricky, prop::collection::vec(any::<u8>(), 1..80)];
        bytes.prop_map(|bytes| LockKey::new(bytes).unwrap())
    }

    fn both() -> [Names; 2] {
        [Names::new("p{0}:"), Names::in_groups("p:")]
    }

    proptest! {
        #[test]
        fn different_keys_have_different_records_which_give_them_back(one in key(), two in key()) {
            for names in both() {
                prop_assert_eq!(one == two, names.record(&one) == names.record(&two));
                prop_assert_eq!(one == two, names.fence(&one) == names.fence(&two));
                prop_assert_eq!(names.key(&names.record(&one)), Some(one.clone()));
            }
        }

        #[test]
        fn a_record_is_where_its_releases_are_told(key in key()) {
            let names = Names::in_groups("p:");
            prop_assert_eq!(slot_of(&names.record(&key)), slot_of(&names.shard_channel(&key)));
        }

        #[test]
        fn no_name_in_the_store_is_taken_for_another_one(
            start in prop::sample::select(vec!["", "p:", "p{0}:", "p{0}:lock:", "p:{7}lock:", "p:{", "p:{}lock:"]),
            rest in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let name = [start.as_bytes(), &rest].concat();
            for names in both() {
                if let Some(key) = names.key(&name) {
                    prop_assert_eq!(names.record(&key), name.clone());
                }
            }
        }
    }
}
