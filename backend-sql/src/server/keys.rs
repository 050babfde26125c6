//! Ranges of keys.

use distlock_core::LockKey;

/// What all keys that start with `prefix` stay below.
pub(crate) fn end_of_range(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![0xff; LockKey::MAX_LEN + 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_after_the_last_key_with_the_prefix() {
        assert_eq!(end_of_range(b"ab"), b"ac");
        assert_eq!(end_of_range(b"a\xff\xff"), b"b");
        for open in [&b"\xff"[..], b""] {
            assert!(end_of_range(open) > vec![0xff; LockKey::MAX_LEN]);
        }
    }
}
