//! The command never outlives its lock, whatever becomes of the wrapper.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{HEART, Rig, Started, dead, ended, eventually, is_alive, last_beat, uptime};

const TTL: Duration = Duration::from_secs(2);

#[test]
fn a_killed_wrapper_takes_the_command_with_it() {
    let rig = Rig::memory();
    let script = "trap '' TERM HUP INT; sleep 600 & echo $! > background; echo $$ > pid; wait; sleep 600";
    let run = Started::from(&mut rig.run(&["--ttl", "60s", "k"], script));
    let (command, background) = (rig.pid("pid"), rig.pid("background"));
    run.signal(Signal::KILL);
    dead(command);
    dead(background);
    let end = run.end();
    assert_eq!(end.said().len(), 1, "{end:?}");
    assert!(end.stderr.contains("the wrapper was killed"), "{end:?}");
}

#[test]
fn a_stopped_wrapper_does_not_keep_the_command_alive() {
    let rig = Rig::memory();
    let run = Started::from(&mut rig.run(&["--ttl", "2s", "k"], HEART));
    let command = rig.pid("pid");
    run.signal(Signal::STOP);
    // The last renewal was sent before now, so the lock is over one ttl from now at the latest.
    let over = uptime() + TTL;
    dead(command);
    assert!(last_beat(&rig) <= over, "last beat {:?}, lock over at {over:?}", last_beat(&rig));
    run.signal(Signal::CONT);
    let end = run.end();
    assert_eq!(end.status, Some(76), "{end:?}");
    assert!(end.stderr.contains("lock"), "{end:?}");
}

/// The process that guards `command`, once there is one.
fn shepherd(run: &Started, command: Pid) -> Option<Pid> {
    let wrapper = run.pid().as_raw_pid();
    let children = fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children")).ok()?;
    let mut children = children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    children.find(|pid| *pid != command)
}

#[test]
fn a_shepherd_that_is_killed_or_stopped_is_replaced() {
    for signal in [Signal::KILL, Signal::STOP] {
        let rig = Rig::memory();
        let run = Started::from(&mut rig.run(&["--ttl", "60s", "k"], "echo $$ > pid; sleep 600"));
        let command = rig.pid("pid");
        let first = eventually("a shepherd", || shepherd(&run, command));
        kill_process(first, signal).unwrap();
        let second = || shepherd(&run, command).filter(|pid| *pid != first);
        eventually("another shepherd", second);
        dead(first);
        run.signal(Signal::KILL);
        dead(command);
    }
}

#[test]
fn wrapper_and_shepherd_killed_together_take_the_command_with_them() {
    let rig = Rig::memory();
    let run =
        Started::from(&mut rig.run(&["--ttl", "60s", "k"], "echo $$ > pid; while :; do sleep 0.01; done"));
    let command = rig.pid("pid");
    let shepherd = eventually("a shepherd", || shepherd(&run, command));
    // A stopped wrapper can't replace it in between.
    run.signal(Signal::STOP);
    kill_process(shepherd, Signal::KILL).unwrap();
    run.signal(Signal::KILL);
    let killed = uptime();
    dead(command);
    assert!(uptime() < killed + Duration::from_secs(1), "it lived on for {:?}", uptime() - killed);
}

#[test]
fn a_kill_by_name_does_not_hit_wrapper_and_shepherd_at_once() {
    let rig = Rig::memory();
    let run = Started::from(&mut rig.run(&["k"], "echo $$ > pid; sleep 600"));
    let shepherd = eventually("a shepherd", || shepherd(&run, rig.pid("pid")));
    let name = |pid: Pid| fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid())).unwrap();
    assert_eq!((name(run.pid()).trim(), name(shepherd).trim()), ("distlock", "lock-shepherd"));
}

#[test]
fn a_shepherd_survives_the_signals_that_end_a_service() {
    let rig = Rig::memory();
    let run = Started::from(
        &mut rig.run(&["--ttl", "60s", "k"], "trap '' TERM; echo $$ > pid; sleep 600; sleep 600"),
    );
    let command = rig.pid("pid");
    let shepherd = eventually("a shepherd", || shepherd(&run, command));
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let _ = kill_process(shepherd, signal);
    }
    run.signal(Signal::KILL);
    dead(command);
}

/// A script whose second process leaves the group, as `timeout` does it; `None` without `timeout`.
fn straying(rest: &str) -> Option<String> {
    let there = std::process::Command::new("timeout").arg("--version").output().is_ok();
    if !there {
        println!("skipped: there is no `timeout` here");
        return None;
    }
    let stray =
        "timeout 77 sh -c 'echo $$ > stray; exec sleep 77' & while ! test -s stray; do sleep 0.01; done";
    Some(format!("{stray}; echo $$ > pid; {rest}"))
}

#[test]
fn a_process_that_left_the_group_ends_before_the_lock_is_released() {
    let Some(script) = straying("exit 5") else { return };
    let rig = Rig::memory();
    let end = ended(&mut rig.run(&["--grace", "200ms", "k"], &script));
    assert_eq!(end.status, Some(5), "{end:?}");
    assert!(!is_alive(rig.pid("stray")));
}

#[test]
fn a_process_that_left_the_group_dies_with_a_killed_wrapper() {
    let Some(script) = straying("wait") else { return };
    let rig = Rig::memory();
    // Another run of the same shell, in the same session: it is none of the first one's business.
    let other =
        Started::from(&mut rig.run(&["other"], "echo $$ > other; while ! test -e go; do sleep 0.01; done"));
    let run = Started::from(&mut rig.run(&["--ttl", "60s", "k"], &script));
    let (command, stray) = (rig.pid("pid"), rig.pid("stray"));
    run.signal(Signal::KILL);
    dead(command);
    dead(stray);
    run.end();
    assert!(is_alive(rig.pid("other")));
    fs::write(rig.path("go"), "").unwrap();
    assert_eq!(other.end().status, Some(0));
}

#[test]
fn a_process_that_left_the_group_dies_when_the_wrapper_is_stopped() {
    let Some(script) = straying("wait") else { return };
    let rig = Rig::memory();
    let run = Started::from(&mut rig.run(&["--ttl", "2s", "k"], &script));
    let stray = rig.pid("stray");
    rig.pid("pid");
    run.signal(Signal::STOP);
    dead(stray);
    run.signal(Signal::CONT);
    assert_eq!(run.end().status, Some(76));
}
