//! What each feature pulls in, and above all what it does not.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::process::Command;

/// What marks a store or an ability: it may come with the features it belongs to alone.
const MARKS: &[(&str, &[&str])] = &[
    ("redis", &["redis"]),
    ("etcd-client", &["etcd"]),
    ("tonic", &["etcd"]),
    ("sqlx-postgres", &["postgres"]),
    ("sqlx-mysql", &["mysql"]),
    ("sqlx-sqlite", &["sqlite"]),
    ("libsqlite3-sys", &["sqlite"]),
    ("zookeeper-client", &["zk"]),
    ("rustls", &["tls"]),
    ("ring", &["tls"]),
    ("aws-lc-rs", &["tls"]),
    ("metrics", &["metrics"]),
    ("metrics-exporter-prometheus", &[]),
    ("tracing", &["tracing", "etcd", "postgres", "mysql", "sqlite", "zk"]),
    ("serde", &["serde"]),
    // Of tools, tests and other ways to encrypt: never.
    ("openssl", &[]),
    ("native-tls", &[]),
    ("clap", &[]),
    ("criterion", &[]),
    ("distlock-conformance", &[]),
    ("distlock-testbed", &[]),
    ("proptest", &[]),
];

/// Sets of features, the ability to encrypt with each store among them.
const SETS: &[&str] = &[
    "",
    "redis",
    "etcd",
    "postgres",
    "mysql",
    "sqlite",
    "zk",
    "tls",
    "blocking",
    "tracing",
    "metrics",
    "serde",
    "redis,tls",
    "etcd,tls",
    "postgres,tls",
    "mysql,tls",
    "sqlite,tls",
    "zk,tls",
];

#[test]
fn a_feature_pulls_in_what_belongs_to_it_and_nothing_else() {
    for set in SETS {
        let features: Vec<&str> = set.split(',').collect();
        let packages = packages(set);
        assert!(packages.contains("distlock-core"), "`{set}`: {packages:?}");
        for (mark, allowed) in MARKS {
            let is_allowed = allowed.iter().any(|feature| features.contains(feature));
            assert!(is_allowed || !packages.contains(*mark), "`{set}` pulls in {mark}");
        }
    }
}

#[test]
fn each_store_comes_with_its_feature() {
    for (feature, package) in [
        ("redis", "redis"),
        ("etcd", "etcd-client"),
        ("postgres", "sqlx-postgres"),
        ("mysql", "sqlx-mysql"),
        ("sqlite", "sqlx-sqlite"),
        ("zk", "zookeeper-client"),
        ("metrics", "metrics"),
        ("redis,tls", "rustls"),
    ] {
        assert!(packages(feature).contains(package), "`{feature}` lacks {package}");
    }
}

#[test]
fn the_command_serves_metrics_only_with_its_feature() {
    let served = |features| {
        let packages = packages_of("distlock-cli", features);
        ["metrics", "metrics-exporter-prometheus", "hyper"].map(|package| packages.contains(package))
    };
    assert_eq!(served("sqlite"), [false; 3]);
    assert_eq!(served("sqlite,metrics"), [true; 3]);
}

/// What the facade with these features depends on, outside tests and builds.
fn packages(features: &str) -> BTreeSet<String> {
    packages_of("distlock", features)
}

fn packages_of(package: &str, features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", package, "--edges", "normal", "--prefix", "none"])
        .args(["--no-default-features", "--features", features, "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
