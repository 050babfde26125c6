//! Names in the tree: of locks, and of the places in their queues.

use std::fmt::Write;

use distlock_core::{LockKey, OwnerId};

/// What the name of a place in a queue has before its number, as in Apache Curator.
const LOCK: &str = "lock-";
/// The same of holders in modes that later versions will have; they count as in front.
const SHARE: &str = "share-";
/// What Curator puts before the attempt's id.
const PROTECTED: &str = "_c_";

/// The tree's names under one root.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    root: String,
}

impl Names {
    /// Names under `root`, which starts with a slash and does not end with one.
    pub(crate) fn new(root: &str) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where all locks are.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The node of a lock, whose children are its queue.
    pub(crate) fn lock(&self, key: &LockKey) -> String {
        let mut path = String::with_capacity(self.root.len() + 1 + key.as_bytes().len());
        path.push_str(&self.root);
        path.push('/');
        for (at, byte) in key.as_bytes().iter().enumerate() {
            // Names with a dot in front are ours, and `.` and `..` are none.
            let is_plain = byte.is_ascii_alphanumeric()
                || matches!(byte, b'-' | b'_' | b'~' | b':' | b'@' | b'+' | b'=' | b',' | b'!')
                || (*byte == b'.' && at > 0);
            if is_plain {
                path.push(char::from(*byte));
            } else {
                // Writing to a String can't fail.
                let _ = write!(path, "%{byte:02X}");
            }
        }
        path
    }

    /// The lock whose node has this name, if it is one's.
    pub(crate) fn key(&self, name: &str) -> Option<LockKey> {
        let key = LockKey::from_escaped(name).ok()?;
        // A name that is escaped in another way is not ours.
        (self.lock(&key).get(self.root.len() + 1..)? == name).then_some(key)
    }

    /// Where a gate keeps a key's newest token.
    pub(crate) fn fence(&self, key: &LockKey) -> String {
        format!("{}/.fence-{}", self.root, &self.lock(key)[self.root.len() + 1..])
    }

    /// Where the lowest tokens are kept.
    pub(crate) fn token_floor(&self) -> String {
        format!("{}/.token-floor", self.root)
    }
}

/// The name of an attempt's place in the queue of `lock`, up to the number that the server adds.
pub(crate) fn place(lock: &str, owner: OwnerId) -> String {
    format!("{lock}/{}", place_name(owner))
}

/// The name of the place that `owner` gets if it is the next to be made after the place `before`, as the server writes it.
pub(crate) fn next_place(lock: &str, before: &str, owner: OwnerId) -> Option<String> {
    let (_, number) = before.rsplit_once(LOCK)?;
    let next = number.parse::<i32>().ok()?.wrapping_add(1);
    Some(format!("{}{next:010}", place(lock, owner)))
}

fn place_name(owner: OwnerId) -> String {
    let id = owner.to_string();
    let (a, b, c, d, e) = (&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
    format!("{PROTECTED}{a}-{b}-{c}-{d}-{e}-{LOCK}")
}

/// One child of a lock's node that stands in its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) name: String,
    /// The attempt, unless another program does not say.
    pub(crate) owner: Option<OwnerId>,
    /// Its number. The server's counter has 32 bits and goes on below zero.
    pub(crate) number: u32,
}

impl Contender {
    /// Reads a child's name; `None` if it is no contender for an exclusive lock.
    pub(crate) fn read(name: String) -> Option<Self> {
        let (before, number) = name.rsplit_once(LOCK).or_else(|| name.rsplit_once(SHARE))?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = match number.strip_prefix('-') {
            Some(below) if is_number(below) => number.parse::<i32>().ok()?.cast_unsigned(),
            None if is_number(number) => u32::try_from(number.parse::<u64>().ok()?).ok()?,
            _ => return None,
        };
        let owner = before
            .strip_prefix(PROTECTED)
            .and_then(|id| id.strip_suffix('-'))
            .filter(|id| id.len() == 36)
            .and_then(|id| id.parse().ok());
        Some(Self { name, owner, number })
    }
}

/// Who contends for a lock, the first one first.
pub(crate) fn queue(children: Vec<String>) -> Vec<Contender> {
    let mut queue: Vec<_> = children.into_iter().filter_map(Contender::read).collect();
    queue.sort_unstable_by_key(|contender| contender.number);
    // Where the counter went round, the queue begins after its widest gap.
    let widest = queue.windows(2).position(|pair| pair[1].number - pair[0].number > 1 << 31);
    if let Some(at) = widest {
        queue.rotate_left(at + 1);
    }
    queue
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new("/locks")
    }

    #[test]
    fn the_next_place_has_the_next_number() {
        let owner = OwnerId::random();
        let next = |number: &str| next_place("/k", &format!("/k/_c_x-lock-{number}"), owner);
        let named = |number: &str| Some(format!("{}{number}", place("/k", owner)));
        assert_eq!(next("0000000009"), named("0000000010"));
        assert_eq!(next("2147483647"), named("-2147483648"));
        assert_eq!(next("-000000001"), named("0000000000"));
        assert_eq!(next("x"), None);
    }

    #[test]
    fn names_of_locks_are_different_and_read_back() {
        let keys: &[&[u8]] = &[
            b"a",
            b"A",
            b"a/b",
            b"a%2Fb",
            b".",
            b"..",
            b".token-floor",
            b"a.b",
            b"\0",
            b"\xff",
            "ä".as_bytes(),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for key in keys {
            let key = LockKey::new(key).unwrap();
            let path = names().lock(&key);
            let name = path.strip_prefix("/locks/").unwrap();
            assert!(!name.contains('/') && !name.starts_with('.') && name.is_ascii(), "{name}");
            assert_eq!(names().key(name), Some(key));
            assert!(seen.insert(path));
        }
        for strange in ["a%2fb", ".x", "%61", "a b"] {
            assert_eq!(names().key(strange), None, "{strange}");
        }
    }

    #[test]
    fn places_are_named_as_curator_does() {
        let owner: OwnerId = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let path = place("/locks/k", owner);
        assert_eq!(path, "/locks/k/_c_01234567-89ab-cdef-0123-456789abcdef-lock-");
        let read = Contender::read(format!("{}0000000012", place_name(owner))).unwrap();
        assert_eq!((read.owner, read.number), (Some(owner), 12));
        let plain = Contender::read("lock-0000000007".to_owned()).unwrap();
        assert_eq!((plain.owner, plain.number), (None, 7));
        let later = Contender::read(place_name(owner).replace(LOCK, SHARE) + "0000000003").unwrap();
        assert_eq!(
            (later.owner, later.number),
            (Some(owner), 3),
            "a later version's shared holder is in front"
        );
        for stranger in ["lock", "lock-", "lock-x", "lock-12x", "write-0000000001", "lock-99999999999"] {
            assert_eq!(Contender::read(stranger.to_owned()), None, "{stranger}");
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers_also_where_the_counter_goes_round() {
        let order = |names: &[&str]| {
            let queue = queue(names.iter().map(|name| (*name).to_owned()).collect());
            queue.into_iter().map(|contender| contender.name).collect::<Vec<_>>()
        };
        assert_eq!(
            order(&["lock-10", "lock-9", "other", "lock-0000000008"]),
            ["lock-0000000008", "lock-9", "lock-10"]
        );
        assert_eq!(
            order(&["lock--2147483648", "lock-2147483647", "lock--2147483647"]),
            ["lock-2147483647", "lock--2147483648", "lock--2147483647"]
        );
        assert_eq!(order(&["lock-0000000000", "lock--000000001"]), ["lock--000000001", "lock-0000000000"]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = LockKey> {
        let tricky = prop::collection::vec(prop::sample::select(b"a./%2F\0\xff\x7f ".to_vec()), 1..8);
        let bytes = prop_oneof![tricky, prop::collection::vec(any::<u8>(), 1..80)];
        bytes.prop_map(|bytes| LockKey::new(bytes).unwrap())
    }

    /// Names of children, mostly nearly right.
    fn child() -> impl Strategy<Value = String> {
        let number =
            prop_oneof!["[0-9]{1,12}", "-[0-9]{1,12}", any::<i32>().prop_map(|n| format!("{n:010}"))];
        let before = prop::sample::select(vec![
            "",
            "_c_",
            "_c_x-",
            "_c_00000000-0000-0000-0000-0000000000ab-",
            "lock-",
        ]);
        let mode = prop::sample::select(vec!["lock-", "share-", "read-", "lock"]);
        prop_oneof![any::<String>(), (before, mode, number).prop_map(|(a, b, c)| format!("{a}{b}{c}"))]
    }

    proptest! {
        #[test]
        fn different_keys_have_different_nodes_which_give_them_back(one in key(), two in key()) {
            let names = Names::new("/locks");
            prop_assert_eq!(one == two, names.lock(&one) == names.lock(&two));
            prop_assert_eq!(one == two, names.fence(&one) == names.fence(&two));
            let path = names.lock(&one);
            let name = path.strip_prefix("/locks/").unwrap();
            // What ZooKeeper takes for the name of one node, and none of ours for other ends.
            prop_assert!(!name.is_empty() && !name.starts_with('.'));
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'));
            prop_assert_eq!(names.key(name), Some(one));
        }

        #[test]
        fn no_name_of_a_node_is_taken_for_another_one(name in prop_oneof![any::<String>(), "[a%2Ff.]{0,9}"]) {
            let names = Names::new("/locks");
            if let Some(key) = names.key(&name) {
                prop_assert_eq!(names.lock(&key), format!("/locks/{name}"));
            }
        }

        #[test]
        fn a_place_says_whose_it_is(owner in any::<[u8; 16]>(), number in any::<i32>()) {
            let owner = OwnerId::from_bytes(&owner).unwrap();
            // As the server writes its counter.
            let read = Contender::read(format!("{}{number:010}", place_name(owner))).unwrap();
            prop_assert_eq!((read.owner, read.number), (Some(owner), number.cast_unsigned()));
        }

        #[test]
        fn a_queue_is_the_same_in_whatever_order_it_is_listed(
            children in prop::collection::hash_set(child(), 0..12),
            start in any::<u32>(),
            steps in prop::collection::vec(1_u32..1000, 0..12),
        ) {
            let children: Vec<String> = children.into_iter().collect();
            let numbers = |list: Vec<String>| queue(list).into_iter().map(|one| one.number).collect::<Vec<_>>();
            let backwards = children.iter().rev().cloned().collect();
            prop_assert_eq!(numbers(children), numbers(backwards));
            // What the server's counter gave out stands in its order, also where the counter went round.
            let mut number = start;
            let mut given = Vec::new();
            for step in steps {
                number = number.wrapping_add(step);
                given.push(number);
            }
            let listed = given.iter().rev().map(|number| format!("lock-{:010}", number.cast_signed())).collect();
            prop_assert_eq!(numbers(listed), given);
        }
    }
}
