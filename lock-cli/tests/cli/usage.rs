//! Bad input: one line that says what to do, the right status, never a backtrace.

use crate::rig::{Ended, Rig, ended};

fn refused(rig: &Rig, arguments: &[&str]) -> Ended {
    let end = ended(&mut rig.distlock(arguments));
    assert!(end.stderr.starts_with("distlock: "), "{arguments:?}: {end:?}");
    assert_eq!(end.stderr.lines().count(), 1, "{arguments:?}: {end:?}");
    assert!(!end.stderr.contains("stack backtrace"), "{end:?}");
    assert_eq!(end.stdout, "", "{arguments:?}: {end:?}");
    end
}

#[test]
fn bad_usage_is_refused_with_what_to_do() {
    let rig = Rig::memory();
    let long = "x".repeat(513);
    let run = |options: &[&'static str]| [&["run"], options, &["k", "--", "touch", "ran"]].concat();
    let table: &[(Vec<&str>, &str)] = &[
        (vec!["run", "", "--", "true"], "empty"),
        (vec!["run", &long, "--", "true"], "512"),
        (vec!["run", "100%", "--", "true"], "%25"),
        (vec!["run", "k"], "after `--`"),
        (vec!["run", "k", "true"], "put the command after `--`"),
        (run(&["--ttl", "0s"]), "too short"),
        (run(&["--ttl", "1ns"]), "too short"),
        (run(&["--ttl", "1000000years"]), "the longest is 366 days"),
        (run(&["--wait", "1000000y"]), "the longest is 366 days"),
        (run(&["--max-hold", "367d"]), "without --max-hold"),
        (run(&["--ttl", "30"]), "unit"),
        (run(&["--wait", "-5s"]), "negative"),
        (run(&["--wait", "sometimes"]), "forever"),
        (run(&["--grace", "15s"]), "30s"),
        (run(&["--metrics-listen", "localhost:9464"]), "127.0.0.1:9464"),
        (run(&["--ttl", "3s", "--grace", "2s"]), "3s"),
        (run(&["--max-hold", "0s"]), "--max-hold"),
        (vec!["--url", "nonsense", "ls"], "scheme"),
        (vec!["--url", "gopher://x", "ls"], "gopher"),
        (vec!["--url", "memory:?namspace=x", "ls"], "namespace"),
        (vec!["--url", "memory:?namespace=a", "--namespace", "b", "ls"], "twice"),
        (vec!["--url", "", "ls"], "--url"),
        (vec!["--format", "junit", "ls"], "junit"),
        (vec!["--format", "yaml", "ls"], "json"),
        (vec!["force-unlock", "k"], "--yes"),
        (vec!["inspect"], "KEY"),
        (vec!["frobnicate"], "frobnicate"),
        (vec!["completions", "tcsh"], "bash"),
    ];
    for (arguments, text) in table {
        let end = refused(&rig, arguments);
        assert_eq!(end.status, Some(64), "{arguments:?}: {end:?}");
        assert!(end.stderr.contains(text), "{arguments:?} should mention `{text}`: {end:?}");
    }
    assert!(!rig.path("ran").exists(), "nothing ran without a lock");
}

#[test]
fn an_option_of_runs_that_does_not_exist_is_no_command() {
    let end = refused(&Rig::memory(), &["run", "--tll", "3s", "k", "--", "true"]);
    assert!(end.stderr.contains("--ttl") && !end.stderr.contains("after `--`"), "{end:?}");
}

#[test]
fn a_long_argument_is_not_repeated_whole() {
    let rig = Rig::memory();
    let long = "ä".repeat(1000);
    for arguments in [&["run", &long, "--", "true"][..], &["run", "k", &long], &["inspect", &long], &[&long]]
    {
        let said = refused(&rig, arguments).stderr;
        assert!(said.chars().count() < 300 && said.contains("ää…"), "{said}");
    }
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let rig = Rig::memory();
    let end = ended(rig.distlock(&["run", "k", "--", "true"]).env("DISTLOCK_NAMESPACE", ""));
    assert_eq!(end.status, Some(0), "{end:?}");
    let end = ended(rig.distlock(&["--url", "memory:", "info"]).env("DISTLOCK_URL", ""));
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""), "{end:?}");
    #[cfg(feature = "sqlite")]
    {
        let end = ended(rig.distlock(&["run", "k", "--", "true"]).env("DISTLOCK_URL", ""));
        assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""), "{end:?}");
        assert!(rig.path("distlock/locks.db").exists(), "the default store");
    }
}

#[test]
fn nothing_at_all_shows_the_help_as_bad_usage() {
    let end = ended(&mut Rig::memory().distlock(&[]));
    assert_eq!(end.status, Some(64));
    assert!(end.stderr.contains("Usage: distlock"), "{end:?}");
}

#[test]
fn help_and_version_are_no_failures() {
    let rig = Rig::memory();
    for arguments in [&["--help"][..], &["-h"], &["--version"], &["run", "--help"], &["ls", "-h"]] {
        let end = ended(&mut rig.distlock(arguments));
        assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(end.stdout.contains("distlock"), "{arguments:?}: {end:?}");
    }
    let help = ended(&mut rig.distlock(&["--help"])).stdout;
    assert!(
        help.contains("XDG_STATE_HOME") && help.contains("%25") && help.contains("root's crontab"),
        "{help}"
    );
}

#[test]
fn a_password_is_never_shown() {
    let rig = Rig::memory();
    for url in ["gopher://me:s3cret@host/x", "postgres://me:s3cret@host/x", "redis://me:s3cret@host:port"] {
        assert!(!refused(&rig, &["--url", url, "ls"]).stderr.contains("s3cret"), "{url}");
    }
    let help = ended(rig.distlock(&["--help"]).env("DISTLOCK_URL", "redis://me:s3cret@host"));
    assert!(!help.stdout.contains("s3cret"));
}

#[test]
fn completions_are_there_for_every_shell() {
    let rig = Rig::memory();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let end = ended(&mut rig.distlock(&["completions", shell]));
        assert_eq!(end.status, Some(0), "{shell}");
        assert!(end.stdout.contains("force-unlock"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let rig = Rig::memory();
    let script = format!("{} completions bash | true", env!("CARGO_BIN_EXE_distlock"));
    let end = ended(std::process::Command::new("sh").args(["-c", &script]).current_dir(rig.folder.path()));
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""));
}

#[cfg(not(feature = "metrics"))]
#[test]
fn metrics_that_this_build_lacks_are_refused_with_the_feature() {
    let rig = Rig::memory();
    let end = refused(&rig, &["run", "--metrics-listen", "127.0.0.1:0", "k", "--", "touch", "ran"]);
    assert_eq!(end.status, Some(64), "{end:?}");
    assert!(end.stderr.contains("--features metrics") && !rig.path("ran").exists(), "{end:?}");
}
