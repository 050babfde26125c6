//! One holder at a time, across processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;

use crate::rig::{HEART, Rig, Started, ended, eventually, is_alive, last_beat, uptime};

/// Holds the lock until there is a file `go`.
const HOLD: &str = "echo $DISTLOCK_TOKEN >> tokens; echo $$ > held; while ! test -e go; do sleep 0.01; done";

#[test]
fn the_second_waits_and_gets_a_higher_token() {
    let rig = Rig::sqlite();
    let first = Started::from(&mut rig.run(&["k"], HOLD));
    let holder = rig.pid("held");
    let second = Started::from(&mut rig.run(
        &["k"],
        &format!("kill -0 {} && echo both; echo $DISTLOCK_TOKEN >> tokens", holder.as_raw_pid()),
    ));
    // It waits: the store shows it as a waiter.
    eventually("a waiter", || {
        let list = ended(&mut rig.distlock(&["--format", "json", "inspect", "k"]));
        list.stdout.contains(r#""waiters":1"#).then_some(())
    });
    fs::write(rig.path("go"), "").unwrap();
    assert_eq!(first.end().status, Some(0));
    let second = second.end();
    assert_eq!((second.status, second.stdout.as_str()), (Some(0), ""), "never both: {second:?}");
    let tokens: Vec<u64> = rig.read("tokens").lines().map(|token| token.parse().unwrap()).collect();
    assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{tokens:?}");
}

#[test]
fn without_patience_it_says_who_holds_the_lock() {
    let rig = Rig::sqlite();
    let first = Started::from(&mut rig.run(&["k"], HOLD));
    rig.pid("held");
    for wait in ["no", "0s", "100ms"] {
        let end = ended(&mut rig.run(&["--wait", wait, "k"], "touch ran"));
        assert_eq!(end.status, Some(75), "{wait}: {end:?}");
        assert_eq!(end.stderr.lines().count(), 1, "{end:?}");
        let pid = format!("pid={}", first.pid().as_raw_pid());
        assert!(end.stderr.contains(&pid) && end.stderr.contains("command=sh"), "{end:?}");
    }
    assert!(!rig.path("ran").exists());
}

#[test]
fn a_herd_of_processes_counts_without_losing_one() {
    const PROCESSES: usize = 8;
    let rig = Rig::sqlite();
    let script = "n=$(cat count 2>/dev/null || echo 0); sleep 0.01; echo $((n + 1)) > count; echo $DISTLOCK_TOKEN >> tokens";
    let herd: Vec<_> = (0..PROCESSES).map(|_| Started::from(&mut rig.run(&["k"], script))).collect();
    for run in herd {
        let end = run.end();
        assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""));
    }
    assert_eq!(rig.read("count").trim(), PROCESSES.to_string());
    let tokens: Vec<u64> = rig.read("tokens").lines().map(|token| token.parse().unwrap()).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn a_killed_wrapper_frees_the_lock_within_the_ttl_and_never_leaves_two() {
    let rig = Rig::sqlite();
    let first = Started::from(&mut rig.run(&["--ttl", "2s", "k"], HEART));
    let command = rig.pid("pid");
    first.signal(Signal::KILL);
    let killed = uptime();
    let next = ended(&mut rig.run(&["k"], "read now rest < /proc/uptime; echo $now"));
    assert_eq!(next.status, Some(0), "{next:?}");
    assert!(!is_alive(command));
    let granted = Duration::from_secs_f64(next.stdout.trim().parse().unwrap());
    assert!(
        last_beat(&rig) <= granted,
        "the old command lived on at {:?}, granted at {granted:?}",
        last_beat(&rig)
    );
    // The ttl, and some time for a busy machine.
    assert!(granted < killed + Duration::from_secs(2 + 5), "killed {killed:?}, granted {granted:?}");
}

#[test]
fn a_stopped_wrapper_never_leaves_two() {
    let rig = Rig::sqlite();
    let first = Started::from(&mut rig.run(&["--ttl", "2s", "k"], HEART));
    rig.pid("pid");
    first.signal(Signal::STOP);
    let next = ended(&mut rig.run(&["k"], "read now rest < /proc/uptime; echo $now"));
    let granted = Duration::from_secs_f64(next.stdout.trim().parse().unwrap());
    assert!(
        last_beat(&rig) <= granted,
        "the old command lived on at {:?}, granted at {granted:?}",
        last_beat(&rig)
    );
    first.signal(Signal::CONT);
    assert_eq!(first.end().status, Some(76));
}

#[test]
fn who_is_interrupted_while_waiting_leaves_the_line() {
    let rig = Rig::sqlite();
    let holder = Started::from(&mut rig.run(&["k"], HOLD));
    rig.pid("held");
    let waiter = Started::from(&mut rig.run(&["k"], "touch ran"));
    let waiters = |count: &'static str| {
        eventually("a change in the line", || {
            let list = ended(&mut rig.distlock(&["--format", "json", "inspect", "k"]));
            list.stdout.contains(&format!(r#""waiters":{count}"#)).then_some(())
        });
    };
    waiters("1");
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.end().status, Some(143));
    waiters("0");
    fs::write(rig.path("go"), "").unwrap();
    assert_eq!(holder.end().status, Some(0));
    assert!(!rig.path("ran").exists());
}

#[test]
fn who_gave_up_waiting_left_the_line() {
    let rig = Rig::sqlite();
    let holder = Started::from(&mut rig.run(&["k"], HOLD));
    rig.pid("held");
    assert_eq!(ended(&mut rig.run(&["--wait", "300ms", "k"], "touch ran")).status, Some(75));
    fs::write(rig.path("go"), "").unwrap();
    assert_eq!(holder.end().status, Some(0));
    // A place in the line that nobody gave up would hold this one off.
    let next = ended(&mut rig.run(&["--wait", "no", "k"], "exit 3"));
    assert_eq!((next.status, next.stderr.as_str()), (Some(3), ""));
    assert!(!rig.path("ran").exists());
}

#[test]
fn namespaces_do_not_meet() {
    let rig = Rig::sqlite();
    let _first = Started::from(&mut rig.run(&["--namespace", "a", "k"], HOLD));
    rig.pid("held");
    assert_eq!(ended(&mut rig.run(&["--namespace", "b", "--wait", "no", "k"], "exit 0")).status, Some(0));
    assert_eq!(ended(&mut rig.run(&["--namespace", "a", "--wait", "no", "k"], "exit 0")).status, Some(75));
}

#[test]
fn the_default_store_is_the_users_own() {
    let rig = Rig::sqlite();
    assert_eq!(ended(&mut rig.run(&["k"], "exit 0")).status, Some(0));
    let folder = fs::metadata(rig.path("distlock")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    assert!(rig.path("distlock/locks.db").exists());
}
