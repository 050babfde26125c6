//! Signals reach whom they are meant for.

use rustix::process::Signal;

use crate::rig::{Rig, Started};

/// Notes the signals it gets, and ends by `stop`.
const NOTING: &str = "for s in TERM INT HUP QUIT USR1 USR2; do trap \"echo $s >> got\" $s; done; \
                      echo $$ > pid; while ! test -e stop; do sleep 0.01; done; exit 9";

#[test]
fn signals_are_passed_on_to_the_command() {
    let rig = Rig::memory();
    let run = Started::from(&mut rig.run(&["k"], NOTING));
    rig.pid("pid");
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        run.signal(signal);
        crate::rig::eventually(name, || rig.read("got").lines().any(|line| line == name).then_some(()));
    }
    std::fs::write(rig.path("stop"), "").unwrap();
    let end = run.end();
    assert_eq!(end.status, Some(9), "{end:?}");
}

#[test]
fn a_command_that_dies_of_a_signal_gives_its_status() {
    let rig = Rig::memory();
    let run = Started::from(&mut rig.run(&["k"], "echo $$ > pid; sleep 600"));
    rig.pid("pid");
    run.signal(Signal::TERM);
    let end = run.end();
    assert!(end.status == Some(143) && end.said().is_empty(), "{end:?}");
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    let rig = Rig::memory();
    let program = env!("CARGO_BIN_EXE_distlock");
    let script = format!(
        "trap '' HUP; exec {program} run k -- sh -c 'grep SigIgn /proc/self/status > mask; echo $$ > pid; sleep 600'"
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).env("DISTLOCK_URL", "memory:").current_dir(rig.folder.path());
    let run = Started::from(&mut shell);
    rig.pid("pid");
    let mask = u64::from_str_radix(rig.line("mask").trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(mask & 1, 1, "SIGHUP is ignored by the command too");
    run.signal(Signal::HUP);
    run.signal(Signal::TERM);
    assert_eq!(run.end().status, Some(143));
}
