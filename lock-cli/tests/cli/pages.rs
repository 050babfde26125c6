//! The commands that the pages show: all of them are calls that the command understands, and those of the two READMEs do
//! what the pages say.

use std::process::Command;

use rustix::process::Pid;
use serde_json::Value;

use crate::page::{call, shell, shown};
use crate::rig::{Rig, Started, dead, ended};

const PAGES: [&str; 7] = [
    "README.md",
    "lock-cli/README.md",
    "lock-bench/README.md",
    "docs/cli.md",
    "docs/testing.md",
    "docs/backends/mysql.md",
    "docs/backends/postgres.md",
];

#[test]
fn every_call_of_a_page_is_understood() {
    let rig = Rig::memory();
    let mut calls = 0;
    for page in PAGES {
        for line in shown(page).iter().filter_map(|line| call(line)) {
            let mut words = words(&line);
            let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.insert(end, "--help".to_owned());
            let arguments: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            let end = ended(&mut rig.distlock(&arguments));
            assert_eq!(end.status, Some(0), "{page}: {line}: {end:?}");
            calls += 1;
        }
    }
    assert!(calls >= 45, "{calls} calls were found");
}

#[test]
fn what_the_readmes_begin_with_takes_locks() {
    for page in ["README.md", "lock-cli/README.md"] {
        let rig = Rig::sqlite();
        let first = shown(page).iter().find_map(|line| call(line)).unwrap();
        let [one, two] = [(); 2].map(|()| {
            let end = ended(&mut shell(&rig, &first));
            let token = end.stdout.strip_prefix("holding nightly, token ").map(str::trim_end);
            token.and_then(|token| token.parse::<u64>().ok()).unwrap_or_else(|| panic!("{page}: {end:?}"))
        });
        assert!(one < two, "{page}: the second has token {two} after {one}");
    }
}

#[test]
fn the_crontab_wakes_nobody() {
    let rig = Rig::sqlite();
    let line = shown("lock-cli/README.md").into_iter().find(|line| line.starts_with("*/5 * * * * ")).unwrap();
    let job = line.trim_start_matches("*/5 * * * * ").replace("/usr/local/bin/sync", "echo job");
    let end = ended(&mut shell(&rig, &job));
    assert_eq!((end.status, end.stdout.as_str()), (Some(0), "job\n"), "{end:?}");
    let _holder = held(&rig, "sync");
    let end = ended(&mut shell(&rig, &job));
    assert_eq!((end.status, end.stdout.as_str()), (Some(0), ""), "{end:?}");
}

#[test]
fn a_holder_that_hangs_is_found_and_loses_its_lock() {
    let rig = Rig::sqlite();
    let (holder, script) = held(&rig, "reports/daily");
    let of_it = |word: &str| {
        let page = shown("lock-cli/README.md");
        page.into_iter().find(|line| line.starts_with("distlock ") && line.contains(word)).unwrap()
    };
    let end = ended(&mut shell(&rig, &of_it(" inspect reports/daily")));
    assert!(end.status == Some(0) && end.stdout.contains("reports/daily"), "{end:?}");
    // The part before jq, and then what jq is asked for.
    let line = of_it("--format json inspect");
    let (asked, wanted) = line.split_once(" | ").unwrap();
    assert!(wanted.contains(r#".holders[0].metadata | "\(.host) \(.pid)""#), "{wanted}");
    let end = ended(&mut shell(&rig, asked));
    let told: Value = serde_json::from_str(&end.stdout).unwrap();
    let metadata = &told["holders"][0]["metadata"];
    assert_eq!(metadata["pid"], holder.pid().as_raw_pid().to_string(), "{told}");
    assert!(metadata["host"].as_str().is_some_and(|host| !host.is_empty()), "{told}");
    // It asks at a terminal; here nobody answers.
    let taken = of_it("force-unlock reports/daily") + " --yes";
    let end = ended(&mut shell(&rig, &taken));
    assert_eq!(end.status, Some(0), "{end:?}");
    assert_eq!(holder.end().status, Some(76), "it is told that its lock is lost");
    dead(script);
}

/// A holder of this key, and the process that it runs.
fn held(rig: &Rig, key: &str) -> (Started, Pid) {
    let holder = Started::from(&mut rig.run(&["--ttl", "2s", key], "echo $$ > holder; exec sleep 1000"));
    (holder, rig.pid("holder"))
}

/// As a shell takes the line apart.
fn words(line: &str) -> Vec<String> {
    let end = ended(Command::new("sh").args(["-c", &format!("set -- {line}; printf '%s\\n' \"$@\"")]));
    end.stdout.lines().map(ToOwned::to_owned).collect()
}
