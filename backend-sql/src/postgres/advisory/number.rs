//! Which of PostgreSQL's advisory locks stands for a key.

use distlock_core::LockKey;

/// What the number of a key's lock is made of: the space's name, a zero byte, which no name has, and the key.
pub(super) fn name(space: &str, key: &LockKey) -> Vec<u8> {
    [space.as_bytes(), &[0], key.as_bytes()].concat()
}

/// The number of a lock as an expression: the first 64 bits of the SHA-256 of its name, which is a `bytea`
/// expression. All versions of this crate agree on it.
pub(super) fn number(name: &str) -> String {
    format!("CAST(CAST('x' || left(encode(sha256({name}), 'hex'), 16) AS bit(64)) AS bigint)")
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn different_locks_have_different_names(
            spaces in ("[a-z_.]{0,3}", "[a-z_.]{0,3}"),
            one in prop::collection::vec(prop_oneof![Just(0), Just(b'a'), any::<u8>()], 1..5),
            two in prop::collection::vec(prop_oneof![Just(0), Just(b'a'), any::<u8>()], 1..5),
        ) {
            let (one, two) = (LockKey::new(one).unwrap(), LockKey::new(two).unwrap());
            let are_same = spaces.0 == spaces.1 && one == two;
            prop_assert_eq!(are_same, name(&spaces.0, &one) == name(&spaces.1, &two));
        }
    }
}
