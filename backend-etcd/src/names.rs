//! The names of records in etcd.

use distlock_core::{Claim, LockKey, Namespace, OwnerId, Result};

/// Ends a lock's name within a record's name.
const END: &[u8] = b"\0/";
/// Follows a zero byte that belongs to the lock's name. It sorts behind the `/` of [`END`], so records
/// stand in the order of their locks' names.
const ESCAPED: u8 = 0xff;
/// How long an owner's text is.
const OWNER: usize = 32;

/// The names of records: `NAMESPACE/LOCK`, a zero byte, `/` and the owner.
///
/// The zero byte ends the lock's name, so no lock's records lie among those of another one whose name
/// begins alike; a zero byte within the name is followed by a byte 255. What is no record of a lock
/// starts with a zero byte behind the namespace, where no lock's name can start with this one.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: Vec<u8>,
}

impl Names {
    /// # Errors
    /// As [`Namespace::new`].
    pub(crate) fn new(namespace: &str) -> Result<Self> {
        Ok(Self { prefix: Namespace::new(namespace)?.prefix().to_vec() })
    }

    /// What all names start with.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// What the records of one lock start with: its holder's and its waiters'.
    pub(crate) fn queue(&self, key: &LockKey) -> Vec<u8> {
        let mut name = self.starting_with(key.as_bytes());
        name.extend_from_slice(END);
        name
    }

    /// The record of a claim.
    pub(crate) fn record(&self, claim: &Claim) -> Vec<u8> {
        self.record_of(&claim.key, claim.owner)
    }

    /// The record of an owner's claim to a lock.
    pub(crate) fn record_of(&self, key: &LockKey, owner: OwnerId) -> Vec<u8> {
        let mut name = self.queue(key);
        name.extend_from_slice(owner.to_string().as_bytes());
        name
    }

    /// What the records of all locks start with whose names start with `part`.
    pub(crate) fn starting_with(&self, part: &[u8]) -> Vec<u8> {
        let mut name = Vec::with_capacity(self.prefix.len() + part.len() + END.len() + OWNER);
        name.extend_from_slice(&self.prefix);
        for byte in part {
            name.push(*byte);
            if *byte == 0 {
                name.push(ESCAPED);
            }
        }
        name
    }

    /// Where the lowest token is stored that grants may have.
    pub(crate) fn floor(&self) -> Vec<u8> {
        [&self.prefix, &b"\0floor"[..]].concat()
    }

    /// What is written when records that may still be on their way to a shared lease are not wanted any more.
    pub(crate) fn epoch(&self, lease: i64) -> Vec<u8> {
        [&self.prefix, &b"\0epoch/"[..], lease.to_string().as_bytes()].concat()
    }

    /// Where the highest token is stored that was admitted to write what a lock protects.
    pub(crate) fn fence(&self, key: &LockKey) -> Vec<u8> {
        [&self.prefix, &b"\0fence/"[..], key.as_bytes()].concat()
    }

    /// Whose record has this name: the lock, and the owner unless that part can't be read. `None` for what is no
    /// record of a lock.
    pub(crate) fn read(&self, name: &[u8]) -> Option<(LockKey, Option<OwnerId>)> {
        let rest = name.strip_prefix(self.prefix.as_slice())?;
        let mut key = Vec::with_capacity(rest.len());
        let mut at = 0;
        loop {
            match (rest.get(at)?, rest.get(at + 1)) {
                (0, Some(&ESCAPED)) => {
                    key.push(0);
                    at += 2;
                }
                (0, Some(b'/')) => break,
                (0, _) => return None,
                (byte, _) => {
                    key.push(*byte);
                    at += 1;
                }
            }
        }
        let owner = std::str::from_utf8(&rest[at + END.len()..]).ok();
        let owner = owner.filter(|owner| owner.len() == OWNER).and_then(|owner| owner.parse().ok());
        Some((LockKey::new(key).ok()?, owner))
    }
}

/// The end of the range of all names that start with `prefix`, which holds a byte below 255.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xff {
            *last += 1;
            return end;
        }
        end.pop();
    }
    // A zero byte stands for the end of all names.
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new("n").unwrap()
    }

    fn key(bytes: &[u8]) -> LockKey {
        LockKey::new(bytes).unwrap()
    }

    #[test]
    fn names_read_back_and_stand_in_the_order_of_their_keys() {
        let mut keys: Vec<_> =
            [&b"a"[..], b"a\0", b"a\0/", b"a\0\xff", b"ab", b"a/", b"\0", b"\0floor", b"\xff", b"a%00"]
                .into_iter()
                .map(key)
                .collect();
        keys.sort();
        let mut records: Vec<_> = keys.iter().map(|key| names().record(&Claim::mint(key.clone()))).collect();
        let in_order = records.clone();
        records.sort();
        assert_eq!(records, in_order);
        for (key, record) in keys.iter().zip(&records) {
            let (read, owner) = names().read(record).unwrap();
            assert_eq!((&read, owner.is_some()), (key, true));
            assert!(record.starts_with(&names().queue(key)));
            for other in keys.iter().filter(|other| *other != key) {
                assert!(
                    !record.starts_with(&names().queue(other)),
                    "{key} lies among the records of {other}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_record_of_a_lock_is_not_taken_for_one() {
        assert_eq!(names().read(&names().floor()), None);
        assert_eq!(names().read(&names().fence(&key(b"a\0/x"))), None);
        assert_eq!(names().read(b"m/a\0/0123"), None);
        assert_eq!(names().read(b"n/a"), None);
        assert_eq!(names().read(b"n/a\0/xyz"), Some((key(b"a"), None)));
    }

    #[test]
    fn namespaces_do_not_meet() {
        let (one, two) = (Names::new("a").unwrap(), Names::new("a/b").unwrap());
        assert_ne!(one.queue(&key(b"b/c")), two.queue(&key(b"c")));
        assert!(!two.prefix().starts_with(one.prefix()));
    }

    #[test]
    fn a_range_ends_behind_all_that_starts_alike() {
        assert_eq!(after(b"a/"), b"a0");
        assert_eq!(after(b"a\xff\xff"), b"b");
        assert_eq!(after(b"\xff"), [0]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = LockKey> {
        let tricky = prop::collection::vec(prop::sample::select(b"a/\0\xff%0".to_vec()), 1..8);
        let bytes = prop_oneof![tricky, prop::collection::vec(any::<u8>(), 1..80)];
        bytes.prop_map(|bytes| LockKey::new(bytes).unwrap())
    }

    proptest! {
        #[test]
        fn no_lock_s_records_lie_among_another_s(one in key(), two in key(), owner in any::<[u8; 16]>()) {
            let names = Names::new("n").unwrap();
            let owner = OwnerId::from_bytes(&owner).unwrap();
            let record = names.record_of(&one, owner);
            prop_assert_eq!(names.read(&record), Some((one.clone(), Some(owner))));
            prop_assert_eq!(record.starts_with(&names.queue(&two)), one == two);
            prop_assert_eq!(one.cmp(&two), names.queue(&one).cmp(&names.queue(&two)));
            prop_assert_eq!(one == two, names.fence(&one) == names.fence(&two));
            let within = names.starting_with(two.as_bytes());
            let in_range = record >= within && record < after(&within);
            prop_assert_eq!(in_range, one.as_bytes().starts_with(two.as_bytes()), "a list finds them by their start");
        }

        #[test]
        fn no_name_in_the_store_is_taken_for_another_one(
            start in prop::sample::select(vec!["", "n/", "n/a\0/", "n/\0", "m/a\0/"]),
            rest in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(b'/')], 0..40),
        ) {
            let names = Names::new("n").unwrap();
            let name = [start.as_bytes(), &rest].concat();
            if let Some((key, _)) = names.read(&name) {
                prop_assert!(name.starts_with(&names.queue(&key)));
            }
        }
    }
}
