//! The options in stores' URLs: no value makes their readers panic, an error says which part of the URL it is about,
//! and none shows the password. `PROPTEST_CASES` sets how many URLs each store gets.
#![cfg(all(feature = "redis", feature = "etcd", feature = "postgres", feature = "sqlite", feature = "zk"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use distlock::{COMMON_OPTIONS, ErrorKind, Result, StoreUrl, UrlOption};
use proptest::prelude::*;

const PASSWORD: &str = "S3cr3t-P4ssw0rd";

/// A kind of store: a URL without options, those it has, and what reads it.
struct Kind {
    url: &'static str,
    options: &'static [UrlOption],
    read: fn(&mut StoreUrl) -> Result<()>,
}

fn kinds() -> [Kind; 6] {
    use distlock::{
        etcd::EtcdConfig, postgres::ServerConfig, redis::RedisConfig, sqlite::SqliteConfig, zk::ZkConfig,
    };
    [
        Kind {
            url: "redis://user:PASSWORD@localhost/1",
            options: RedisConfig::URL_OPTIONS,
            read: |url| RedisConfig::from_url(url).map(drop),
        },
        Kind {
            url: "redis+sentinel://user:PASSWORD@one,two/main/1",
            options: RedisConfig::URL_OPTIONS,
            read: |url| RedisConfig::from_url(url).map(drop),
        },
        Kind {
            url: "etcd://user:PASSWORD@one,two/space",
            options: EtcdConfig::URL_OPTIONS,
            read: |url| EtcdConfig::from_url(url).map(drop),
        },
        Kind {
            url: "postgres://user:PASSWORD@one,two:1/database",
            options: distlock::postgres::URL_OPTIONS,
            read: |url| ServerConfig::from_url(url).map(drop),
        },
        Kind {
            url: "zk://user:PASSWORD@one,two/root",
            options: ZkConfig::URL_OPTIONS,
            read: |url| ZkConfig::from_url(url).map(drop),
        },
        Kind {
            url: "sqlite:/tmp/locks.db",
            options: SqliteConfig::URL_OPTIONS,
            read: |url| SqliteConfig::from_url(url).map(drop),
        },
    ]
}

/// Values that are right for some options, nearly right for others, and anything at all.
fn value() -> impl Strategy<Value = String> {
    let likely = prop::sample::select(vec![
        "",
        "0",
        "1",
        "-1",
        "3",
        "64",
        "65536",
        "18446744073709551616",
        "0s",
        "1ms",
        "500ms",
        "2s",
        "30s",
        "1h",
        "10y",
        "99999999999999999999s",
        "1.5s",
        "on",
        "off",
        "true",
        "yes",
        "ON",
        "none",
        "name",
        "na me",
        "a.b",
        "\"",
        ";--",
        "/run/x",
        "../x",
        "ä",
    ]);
    prop_oneof![4 => likely.prop_map(str::to_owned), 1 => any::<String>()]
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_option_is_read_or_refused_by_name(
        kind in 0_usize..6,
        choices in prop::collection::vec((any::<prop::sample::Index>(), value()), 0..5),
    ) {
        let Kind { url, options, read } = &kinds()[kind];
        let mut query: Vec<String> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for (choice, value) in &choices {
            let name = choice.get(options).name;
            if !names.contains(&name) {
                names.push(name);
                query.push(format!("{name}={}", encoded(value)));
            }
        }
        let text = format!("{}?{}", url.replace("PASSWORD", PASSWORD), query.join("&"));
        let mut url = StoreUrl::parse(&text).unwrap();
        match read(&mut url) {
            Ok(()) => {
                let rest = url.refuse_unknown(&COMMON_OPTIONS);
                prop_assert!(rest.is_ok(), "an option was read, but left in the URL: {:?}", rest);
            }
            Err(error) => {
                let shown = format!("{error} {error:?}");
                prop_assert!(!shown.contains(PASSWORD), "{}", shown);
                prop_assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{}", shown);
                prop_assert!(names.iter().any(|name| shown.contains(name)), "{} says nothing of {:?}", shown, names);
            }
        }
    }
}
