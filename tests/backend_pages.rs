//! The pages of the stores can be compared line by line, and links between pages lead somewhere.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

const HEADINGS: [&str; 13] = [
    "Connecting",
    "What it promises",
    "Limits",
    "Settings of the server",
    "Permissions",
    "Options worth knowing",
    "What the probe says",
    "When something is wrong",
    "Failover and restarts",
    "Clock",
    "Changing servers and passwords",
    "Taking a lock away by hand",
    "Backups and restores",
];
const REPOSITORY: &str = "https://github.com/distlock/distlock/blob/main/";

#[test]
fn every_page_has_the_same_headings() {
    for page in backends() {
        let text = read(&page);
        let found: Vec<_> = headings(&text).into_iter().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(found, HEADINGS, "{}", page.display());
        for heading in HEADINGS {
            assert!(!section(&text, heading).trim().is_empty(), "{}: nothing in {heading}", page.display());
        }
    }
}

/// Those in the list of options, which another test compares with the drivers.
#[test]
fn every_scheme_is_on_one_page() {
    let options = read(&root().join("docs/options.md"));
    let schemes: Vec<_> = headings(&options)
        .into_iter()
        .filter_map(|line| line.strip_prefix("## `"))
        .flat_map(|line| line.split("` `"))
        .map(|scheme| scheme.trim_end_matches('`'))
        .collect();
    assert!(schemes.contains(&"memory:") && schemes.len() > 10, "{schemes:?}");
    let mine = distlock::registry();
    for scheme in mine.schemes() {
        assert!(schemes.contains(&format!("{scheme}:").as_str()), "{scheme} is not in the list of options");
    }
    for scheme in schemes {
        let named = format!("`{scheme}");
        let pages = backends().into_iter().filter(|page| section(&read(page), HEADINGS[0]).contains(&named));
        assert_eq!(pages.count(), 1, "pages that say how to connect with {scheme}");
    }
}

#[test]
fn the_index_names_every_page() {
    let index = read(&root().join("docs/backends/README.md"));
    for page in backends() {
        let name = page.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(index.contains(&format!("({name})")), "{name} is not in the index");
    }
}

#[test]
fn links_between_pages_lead_to_files_and_headings() {
    let mut links = 0;
    for page in pages(&root().join("docs")) {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            // Items of the code are for rustdoc to find.
            if link.contains("::") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file.strip_prefix(REPOSITORY) {
                Some(file) => root().join(file),
                None if file.contains("://") => continue,
                None if file.is_empty() => page.clone(),
                None => page.parent().expect("a folder").join(file),
            };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            if !heading.is_empty() && target.extension().is_some_and(|kind| kind == "md") {
                let text = read(&target);
                let has = headings(&text).into_iter().any(|line| anchor(line) == heading);
                assert!(has, "{}: no heading for {link}", page.display());
            }
            links += 1;
        }
    }
    assert!(links > 100, "{links} links were found");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &Path) -> String {
    fs::read_to_string(page).expect("the page can be read")
}

/// The pages of the stores, without their index.
fn backends() -> Vec<PathBuf> {
    let mut found = pages(&root().join("docs/backends"));
    found.retain(|page| !page.ends_with("README.md"));
    assert!(found.len() > 5, "{found:?}");
    found
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let (folders, files): (Vec<_>, Vec<_>) =
        entries.map(|entry| entry.expect("an entry").path()).partition(|path| path.is_dir());
    let mut found: Vec<_> =
        files.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "md")).collect();
    found.extend(folders.iter().flat_map(|folder| pages(folder)));
    found
}

/// What begins with `#`, but not in a block of code.
fn headings(text: &str) -> Vec<&str> {
    let outside = text.split("```").step_by(2);
    outside.flat_map(str::lines).filter(|line| line.starts_with('#')).collect()
}

fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let rest = text.split_once(&format!("\n## {heading}\n")).map_or("", |(_, rest)| rest);
    rest.split("\n## ").next().unwrap_or_default()
}

fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}
