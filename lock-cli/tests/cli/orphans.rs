//! The command never outlives its lock, whatever becomes of the wrapper.

use std::time::Duration;

use rustix::process::Signal;

use crate::rig::{HEART, Rig, Started, dead, eventually, last_beat, uptime};

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
    assert_eq!(end.stderr.lines().count(), 1, "{end:?}");
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

#[test]
fn a_killed_shepherd_is_replaced() {
    let rig = Rig::memory();
    let run = Started::from(&mut rig.run(&["--ttl", "60s", "k"], "echo $$ > pid; sleep 600"));
    let command = rig.pid("pid");
    let shepherd = || {
        let wrapper = run.pid().as_raw_pid();
        let children = std::fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children")).ok()?;
        let others =
            children.split_whitespace().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?));
        others.into_iter().find(|pid| *pid != command)
    };
    let first = eventually("a shepherd", shepherd);
    rustix::process::kill_process(first, Signal::KILL).unwrap();
    eventually("another shepherd", || shepherd().filter(|pid| *pid != first));
    run.signal(Signal::KILL);
    dead(command);
}

#[test]
fn a_shepherd_survives_the_signals_that_end_a_service() {
    let rig = Rig::memory();
    let run = Started::from(
        &mut rig.run(&["--ttl", "60s", "k"], "trap '' TERM; echo $$ > pid; sleep 600; sleep 600"),
    );
    let command = rig.pid("pid");
    let wrapper = run.pid().as_raw_pid();
    let children = std::fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children")).unwrap();
    let shepherd =
        children.split_whitespace().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?));
    let shepherd = shepherd.into_iter().find(|pid| *pid != command).unwrap();

    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let _ = rustix::process::kill_process(shepherd, signal);
    }
    run.signal(Signal::KILL);
    dead(command);
}
