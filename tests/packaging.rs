//! What a package needs before it is published.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Our packages that are to be published.
fn published() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let all = metadata["packages"].as_array().expect("a list of packages");
    all.iter().filter(|package| package["publish"] != serde_json::json!([])).cloned().collect()
}

fn folder(package: &Value) -> &Path {
    Path::new(package["manifest_path"].as_str().expect("a path")).parent().expect("a folder")
}

#[test]
fn every_package_says_what_it_is() {
    let packages = published();
    assert!(packages.len() >= 9, "the facade, the core, the backends and the tools");
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        for field in ["description", "license", "repository", "readme", "rust_version"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
        for field in ["keywords", "categories"] {
            let count = package[field].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{name} has {count} {field}");
        }
        let is_library =
            package["targets"].as_array().expect("targets").iter().any(|target| target["doc"] == true);
        let all_features = &package["metadata"]["docs"]["rs"]["all-features"];
        assert!(!is_library || all_features == true, "{name}: docs.rs would leave features out");
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            let text = fs::read_to_string(folder(&package).join(file)).unwrap_or_default();
            assert!(!text.is_empty(), "{name} lacks {file}");
        }
    }
}

#[test]
fn nothing_that_is_published_needs_what_is_not() {
    let packages = published();
    for package in &packages {
        for dependency in package["dependencies"].as_array().expect("a list") {
            let is_ours = !dependency["path"].is_null();
            if is_ours && dependency["kind"] != "dev" {
                let is_published = packages.iter().any(|other| other["name"] == dependency["name"]);
                assert!(is_published, "{} needs {}", package["name"], dependency["name"]);
                assert_ne!(
                    dependency["req"], "*",
                    "{} names no version of {}",
                    package["name"], dependency["name"]
                );
            }
        }
    }
}

/// The build of each takes minutes; `make gates` builds each feature, and installs the command with all of them.
#[test]
fn what_the_pages_install_has_the_features_that_they_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut lines = Vec::new();
    for folder in ["", "lock-cli", "docs", "docs/backends"] {
        for entry in fs::read_dir(root.join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).expect("a page");
                let calls = text.split("cargo install ").skip(1);
                lines.extend(
                    calls.map(|call| call.split(['`', '#', '\n']).next().unwrap_or(call).trim().to_owned()),
                );
            }
        }
    }
    assert!(lines.len() >= 12, "{lines:?}");
    for line in lines {
        let mut words = line.split_whitespace().filter(|word| *word != "--locked");
        let folder =
            words.by_ref().skip_while(|word| *word != "--path").nth(1).expect("a folder of the checkout");
        let features: Vec<_> = words.collect();
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--offline", "--depth=0"])
            .args(&features)
            .current_dir(root.join(folder))
            .output()
            .expect("cargo runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo install {line}: {told}");
    }
}

/// A README is shown by registries and documentation pages, from where a path leads nowhere.
#[test]
fn links_of_readmes_lead_somewhere_wherever_they_are_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for package in published() {
        let readme = folder(&package).join("README.md");
        let text = fs::read_to_string(&readme).expect("a README");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_item = !target.contains(['/', '.']);
            assert!(is_item || target.starts_with("https://"), "{}: {target}", readme.display());
            let file = target.strip_prefix(REPOSITORY).map(|file| file.split('#').next().unwrap_or(file));
            if let Some(file) = file {
                assert!(root.join(file).exists(), "{}: there is no {file}", readme.display());
            }
        }
    }
}

#[test]
fn pages_for_newcomers_name_the_oldest_rust() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wanted = format!("Rust {} or later", env!("CARGO_PKG_RUST_VERSION"));
    for page in ["README.md", "lock-cli/README.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root.join(page)).expect("a page");
        assert!(text.contains(&wanted), "{page} does not say `{wanted}`");
    }
}

const REPOSITORY: &str = "https://github.com/distlock/distlock/blob/main/";
