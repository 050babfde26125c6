//! What parses outside input: nothing panics, what is well formed survives the way there and back, and no
//! message shows a password. `PROPTEST_CASES` sets how many inputs each property gets; a failing one is
//! shrunk and printed with its seed.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::str::FromStr;

use distlock_core::{COMMON_OPTIONS, LockKey, Metadata, Namespace, OwnerId, StoreUrl};
use proptest::prelude::*;

/// The bytes, each as `%XX`.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Text made of what URLs are made of, more often than not nearly right.
fn nearly_a_url() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("redis:"),
        Just("//"),
        Just("@"),
        Just(":"),
        Just(","),
        Just("/"),
        Just("?"),
        Just("&"),
        Just("="),
        Just("["),
        Just("]"),
        Just("%"),
        Just("%2"),
        Just("%FF"),
        Just("::1"),
        Just("65536"),
        Just("host"),
        Just("ttl=1s"),
        Just("ä"),
        Just("\0"),
        Just(" "),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_text_makes_the_url_parser_panic(text in prop_oneof![any::<String>(), nearly_a_url()]) {
        if let Ok(mut url) = StoreUrl::parse(&text) {
            let _ = (url.to_string(), format!("{url:?}"));
            let _ = (url.take_duration("ttl"), url.take_number::<u16>("n"), url.take_switch("s"));
            let _ = url.refuse_unknown(&COMMON_OPTIONS);
        }
    }

    #[test]
    fn a_url_gives_back_its_parts_and_never_shows_its_password(
        user in "[a-zA-Z0-9 @:/?#%ä]{1,12}",
        password in "[A-Z0-9]{3}[@:/?#%&ä]{1,4}[A-Z0-9]{12}",
        host in "[a-z][a-z0-9-]{0,10}",
        port in 1_u16..,
        path in "[a-z0-9 ?&#%ä]{1,12}",
        value in "[a-zA-Z0-9 &=?#%ä+]{0,12}",
    ) {
        let text = format!(
            "redis://{}:{}@{host}:{port},other/{}?name={}",
            encoded(&user), encoded(&password), encoded(&path), encoded(&value)
        );
        let mut url = StoreUrl::parse(&text).unwrap();
        prop_assert_eq!(url.user.as_deref(), Some(user.as_str()));
        prop_assert_eq!(url.password.as_deref(), Some(password.as_str()));
        prop_assert_eq!((url.hosts[0].name.as_str(), url.hosts[0].port), (host.as_str(), Some(port)));
        prop_assert_eq!(url.path.as_str(), path.as_str());
        let shown = format!("{url} {url:?}");
        prop_assert!(!shown.contains(&password), "{}", shown);
        prop_assert_eq!(url.take("name"), Some(value));
        // Broken in any other part, its message shows it no more.
        for broken in [text.replace(&format!(":{port},"), ":99999,"), text.replace("redis:", "re dis:"), text + "&%zz"] {
            if let Err(error) = StoreUrl::parse(&broken) {
                let shown = format!("{error} {error:?}");
                prop_assert!(!shown.contains(&password) && !shown.contains(&encoded(&password)), "{}", shown);
            }
        }
    }

    #[test]
    fn no_text_makes_the_key_parser_panic_and_what_it_takes_is_one_key(text in any::<String>()) {
        if let Ok(key) = LockKey::from_escaped(&text) {
            prop_assert_eq!(LockKey::from_escaped(&key.to_string()).unwrap(), key);
        }
    }

    #[test]
    fn different_keys_have_different_texts(
        one in prop::collection::vec(any::<u8>(), 1..40),
        two in prop::collection::vec(prop::sample::select(b"%2F5/a\xC3\xA4\0".to_vec()), 1..6),
        three in prop::collection::vec(prop::sample::select(b"%2F5/a\xC3\xA4\0".to_vec()), 1..6),
    ) {
        for (a, b) in [(&one, &two), (&two, &three)] {
            let (left, right) = (LockKey::new(a).unwrap(), LockKey::new(b).unwrap());
            prop_assert_eq!(left == right, left.to_string() == right.to_string());
        }
    }

    #[test]
    fn a_namespace_gives_back_its_keys_and_no_other_s(
        name in "[a-z0-9/:%ä]{1,20}",
        other in "[a-z0-9/:%ä]{1,20}",
        bytes in prop::collection::vec(any::<u8>(), 1..60),
    ) {
        let (Ok(mine), Ok(theirs)) = (Namespace::new(&name), Namespace::new(&other)) else { return Ok(()) };
        let key = LockKey::new(&bytes).unwrap();
        let outer = mine.outer(&key).unwrap();
        prop_assert_eq!(mine.inner(&outer), Some(key.clone()));
        if mine.as_str() != theirs.as_str() {
            prop_assert_ne!(theirs.outer(&key).unwrap(), outer);
        }
    }

    #[test]
    fn stored_owners_and_metadata_never_panic(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(owner) = OwnerId::from_str(&text) {
            prop_assert_eq!(OwnerId::from_str(&owner.to_string()).unwrap(), owner);
        }
        if let Some(owner) = OwnerId::from_bytes(&bytes) {
            prop_assert_eq!(owner.as_bytes().as_slice(), bytes.as_slice());
        }
        let labels: Vec<_> = Metadata::decode(&text).iter().collect();
        prop_assert!(labels.len() <= text.len());
    }

    #[test]
    fn labels_survive_the_store(name in "[a-z]{1,8}", value in any::<String>()) {
        if let Ok(metadata) = Metadata::new([(name.as_str(), value.as_str())]) {
            prop_assert_eq!(Metadata::decode(metadata.encode()).get(&name), Some(value));
        }
    }
}
