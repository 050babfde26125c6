//! docs/scenarios.md says which test shows what: every number stands there once, and every test is where its link says.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many faults are known; a page that lost some of its lines must not pass.
const KNOWN: usize = 96;

/// A line of the page: its number, and the tests with the files that they are in.
type Scenario = (String, Vec<(String, PathBuf)>);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> Vec<Scenario> {
    let text = std::fs::read_to_string(root().join("docs/scenarios.md")).expect("the page is there");
    text.lines().filter_map(scenario).collect()
}

fn scenario(line: &str) -> Option<Scenario> {
    let mut cells = line.strip_prefix("| B")?.split(" | ");
    let number = format!("B{}", cells.next()?);
    let shown_by = cells.nth(1)?;
    let links = shown_by.split("[`").skip(1).filter_map(|link| {
        let (test, rest) = link.split_once("`](../")?;
        Some((test.to_owned(), root().join(rest.split_once(')')?.0)))
    });
    Some((number, links.collect()))
}

/// A test's name, without the group that a case of the suite has before it.
fn own_name(test: &str) -> &str {
    test.rsplit("::").next().expect("there is a last part")
}

/// Whether a test's name begins with this number, alone or among others.
fn bears(test: &str, number: &str) -> bool {
    let is_number = |part: &&str| part.len() == 4 && part.starts_with('b');
    own_name(test).split('_').take_while(is_number).any(|part| part.eq_ignore_ascii_case(number))
}

/// Whether the file has a test of this name, as a function or as the name of a trial.
fn has(file: &Path, test: &str) -> bool {
    let name = own_name(test);
    let text = std::fs::read_to_string(file).unwrap_or_default();
    [format!("fn {name}("), format!("fn {name}<"), format!("\"{name}\"")]
        .iter()
        .any(|named| text.contains(named))
}

/// The names of tests in our sources that begin with a number, by file.
fn numbered_tests(folder: &Path, found: &mut BTreeMap<PathBuf, BTreeSet<String>>) {
    for entry in
        std::fs::read_dir(folder).expect("it is a folder").map(|entry| entry.expect("it is readable"))
    {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                numbered_tests(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).expect("sources are text");
            let names = text.split("fn b").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            let numbered = |name: &&str| {
                name.as_bytes().get(3) == Some(&b'_')
                    && name.bytes().take(3).all(|byte| byte.is_ascii_digit())
            };
            let names: BTreeSet<String> = names.filter(numbered).map(|name| format!("b{name}")).collect();
            if !names.is_empty() {
                found.insert(path, names);
            }
        }
    }
}

#[test]
fn every_number_stands_there_once_and_every_test_exists() {
    let page = page();
    let numbers: BTreeSet<&str> = page.iter().map(|(number, _)| number.as_str()).collect();
    assert_eq!((page.len(), numbers.len()), (KNOWN, KNOWN));
    for (number, tests) in &page {
        for (test, file) in tests {
            assert!(has(file, test), "{number}: there is no `{test}` in {}", file.display());
        }
    }
    let unshown: Vec<&str> =
        page.iter().filter(|(_, tests)| tests.is_empty()).map(|(number, _)| number.as_str()).collect();
    assert_eq!(unshown, ["B137", "B139", "B140", "B142", "B143", "B144"], "what only a lock server can do");
}

#[test]
fn every_number_that_can_occur_is_borne_by_a_test() {
    for (number, tests) in page().iter().filter(|(_, tests)| !tests.is_empty()) {
        assert!(tests.iter().any(|(test, _)| bears(test, number)), "{number}: no test bears it: {tests:?}");
    }
}

#[test]
fn every_test_that_bears_a_number_stands_in_its_line() {
    let page = page();
    let mut found = BTreeMap::new();
    numbered_tests(root(), &mut found);
    assert!(found.len() > 20, "{found:?}");
    for (file, names) in found {
        for name in names {
            for number in name.split('_').take_while(|part| part.len() == 4 && part.starts_with('b')) {
                let line = page.iter().find(|(known, _)| known.eq_ignore_ascii_case(number));
                let shown = line.is_some_and(|(_, tests)| {
                    tests.iter().any(|(test, at)| own_name(test) == name && *at == file)
                });
                assert!(
                    shown,
                    "docs/scenarios.md does not name `{name}` of {} in the line of {number}",
                    file.display()
                );
            }
        }
    }
}
