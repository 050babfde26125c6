//! Who may depend on whom: see docs/architecture.md.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::process::Command;

const CORE: &str = "distlock-core";
const FACADE: &str = "distlock";
const SUITE: &str = "distlock-conformance";

#[test]
fn crates_depend_only_downwards() {
    for (package, dependencies) in ordinary_dependencies() {
        let allowed: &[&str] = match package.as_str() {
            CORE => &[],
            FACADE => &[CORE, "distlock-etcd", "distlock-redis", "distlock-sql", "distlock-zk"],
            SUITE => &[CORE],
            "distlock-cli" => &[FACADE, SUITE, "distlock-bench"],
            "distlock-bench" => &[FACADE, CORE],
            "distlock-examples" => &[FACADE, SUITE],
            "distlock-testbed" => &[CORE, SUITE],
            _ => &[CORE],
        };
        for dependency in dependencies {
            assert!(allowed.contains(&dependency.as_str()), "{package} must not depend on {dependency}");
        }
    }
}

/// Our packages with those of our packages that they depend on outside tests.
fn ordinary_dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    assert!(packages.len() >= 7, "the whole workspace");
    packages
        .iter()
        .map(|package| {
            let ours = package["dependencies"]
                .as_array()
                .expect("a list")
                .iter()
                .filter(|dependency| dependency["kind"].is_null() && !dependency["path"].is_null())
                .map(|dependency| dependency["name"].as_str().expect("a name").to_owned())
                .collect();
            (package["name"].as_str().expect("a name").to_owned(), ours)
        })
        .collect()
}
