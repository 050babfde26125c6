//! What a release announces.

use distlock_core::{Claim, LockKey, OwnerId};

/// Whom a message concerns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Addressee {
    /// Everybody who waits for the lock, since nobody queues.
    All(LockKey),
    /// The one whose turn it is.
    One(Claim),
}

/// Reads a message: `*` and the lock's name, or `@`, the owner whose turn it is, and the name.
pub(super) fn read(message: &[u8]) -> Option<Addressee> {
    let (kind, rest) = message.split_first()?;
    match kind {
        b'*' => Some(Addressee::All(LockKey::new(rest).ok()?)),
        b'@' => {
            let (owner, key) = rest.split_at_checked(32)?;
            let owner = std::str::from_utf8(owner).ok()?.parse::<OwnerId>().ok()?;
            Some(Addressee::One(Claim::new(LockKey::new(key).ok()?, owner)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_everybody_or_one_and_others_are_ignored() {
        let claim = Claim::mint(LockKey::new(b"a\0\xff*@").unwrap());
        let all = [b"*", claim.key.as_bytes()].concat();
        assert_eq!(read(&all), Some(Addressee::All(claim.key.clone())));
        let owner = claim.owner.to_string();
        let one = [b"@", owner.as_bytes(), claim.key.as_bytes()].concat();
        assert_eq!(read(&one), Some(Addressee::One(claim)));
        for bad in [&b""[..], b"*", b"@", b"@0123", b"key", &one[..33]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_message_names_whom_it_was_sent_to_or_nobody(
            kind in prop::sample::select(b"*@x".to_vec()),
            owner in prop_oneof!["[0-9a-f]{32}", "[0-9A-Fa-f-]{30,37}"],
            rest in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            match read(&[&[kind], owner.as_bytes(), &rest].concat()) {
                Some(Addressee::All(key)) => {
                    prop_assert_eq!(kind, b'*');
                    prop_assert_eq!(key.as_bytes(), [owner.as_bytes(), &rest].concat());
                }
                Some(Addressee::One(claim)) => {
                    prop_assert_eq!(kind, b'@');
                    prop_assert!(!claim.key.as_bytes().is_empty());
                }
                None => {}
            }
            let _ = read(&rest);
        }
    }
}
