//! Every Rust example of a page is compiled: some library takes the page into its documentation, so its examples are tests.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_rust_example_of_a_page_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled: BTreeSet<PathBuf> = files(root, "rs").iter().flat_map(|source| included(source)).collect();
    let mut examples = 0;
    for page in files(root, "md") {
        let text = fs::read_to_string(&page).expect("a page");
        for (line, words) in blocks(&text).into_iter().filter(|(_, words)| is_rust(words)) {
            let place = format!("{}:{line}", page.display());
            assert!(!words.contains(&"ignore"), "{place}: an example that is ignored may be wrong");
            assert!(
                compiled.contains(&page),
                "{place}: no library includes this page, so nobody compiles its example"
            );
            examples += 1;
        }
    }
    assert!(examples >= 20, "{examples} examples were found");
}

/// Files of this kind below the folder, without what is built or hidden.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
    found
}

/// The pages that this source takes into its documentation.
fn included(source: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(source).expect("a source");
    let folder = source.parent().expect("a folder");
    text.lines()
        .filter(|line| line.starts_with("#[doc = ") || line.starts_with("#![doc = "))
        .filter_map(|line| line.split("include_str!(\"").nth(1)?.split('"').next())
        .filter_map(|page| within(folder, page))
        .collect()
}

/// The path from the folder, without its `..`.
fn within(folder: &Path, page: &str) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    for step in page.split('/') {
        if step != ".." {
            path.push(step);
        } else if !path.pop() {
            return None;
        }
    }
    Some(path)
}

/// Where blocks of code begin, with the words behind their fence.
fn blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(words) = line.trim_start().strip_prefix("```") {
            if !inside {
                found.push((index + 1, words.trim().split([',', ' ']).collect()));
            }
            inside = !inside;
        }
    }
    found
}

/// As rustdoc reads it: what names no other language is Rust.
fn is_rust(words: &[&str]) -> bool {
    words.iter().all(|word| {
        matches!(*word, "" | "rust" | "no_run" | "ignore" | "should_panic" | "compile_fail")
            || word.starts_with("edition")
    })
}

#[test]
fn rust_is_told_from_other_languages() {
    let text = "```rust,no_run\nlet a;\n```\n```text\nb\n```\n  ```\nc\n  ```\n";
    let rust: Vec<usize> =
        blocks(text).into_iter().filter(|(_, words)| is_rust(words)).map(|(line, _)| line).collect();
    assert_eq!(rust, [1, 7]);
}
