//! What the command that runs under a lock gets, and what comes back from it.

use std::io::{Read, Write};
use std::process::Stdio;

use crate::rig::{Rig, Started, ended, is_alive};

#[test]
fn the_status_is_the_commands_as_in_a_shell() {
    let rig = Rig::memory();
    for (script, status) in
        [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)]
    {
        let end = ended(&mut rig.run(&["k"], script));
        assert_eq!(end.status, Some(status), "{script}: {end:?}");
        assert!(end.said().is_empty(), "{script}: {end:?}");
    }
}

#[test]
fn a_command_that_cannot_run_gives_the_shells_statuses() {
    let rig = Rig::memory();
    std::fs::write(rig.path("data"), "no program").unwrap();
    for (program, status, reason) in [("no-such-command", 127, "PATH"), ("./data", 126, "Permission denied")]
    {
        let end = ended(&mut rig.distlock(&["run", "k", "--", program]));
        assert_eq!(end.status, Some(status), "{end:?}");
        assert!(end.said()[0].starts_with(&format!("distlock: can't run `{program}`")), "{end:?}");
        assert!(end.stderr.contains(reason) && end.said().len() == 1, "{end:?}");
    }
}

#[test]
fn the_environment_names_the_lock() {
    let rig = Rig::memory();
    let end =
        ended(&mut rig.run(&["a%2fb%25"], "echo $DISTLOCK_KEY; echo $DISTLOCK_TOKEN; echo $DISTLOCK_OWNER"));
    let lines: Vec<&str> = end.stdout.lines().collect();
    assert_eq!(lines[0], "a/b%25");
    assert!(lines[1].parse::<u64>().unwrap() > 0);
    assert_eq!(lines[2].len(), 32);
}

#[test]
fn arguments_and_output_pass_through_untouched() {
    let rig = Rig::memory();
    let end = ended(&mut rig.distlock(&["run", "k", "--", "printf", "%s|", "a b", "", "--ttl", "*"]));
    assert_eq!((end.stdout.as_str(), end.status), ("a b||--ttl|*|", Some(0)));
}

#[test]
fn standard_input_is_the_commands() {
    let rig = Rig::memory();
    let mut command = rig.distlock(&["run", "k", "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"one\ntwo");
}

#[test]
fn standard_input_may_be_closed() {
    let rig = Rig::memory();
    let script = format!("exec {} run k -- sh -c 'cat; exit 4' 0<&-", env!("CARGO_BIN_EXE_distlock"));
    let end = ended(
        std::process::Command::new("sh")
            .args(["-c", &script])
            .env("DISTLOCK_URL", "memory:")
            .current_dir(rig.folder.path()),
    );
    assert_eq!(end.status, Some(4), "{end:?}");
}

#[test]
fn a_reader_notices_when_the_command_closes_its_output() {
    let rig = Rig::memory();
    let mut command =
        rig.run(&["k"], "echo said; exec >&-; echo $$ > pid; while ! test -e go; do sleep 0.01; done");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "said\n");
    assert!(is_alive(rig.pid("pid")), "the end of the output came before the end of the command");
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_command_inherits_no_files_of_ours() {
    let rig = Rig::memory();
    // The shell that looks has its own folder listing open, so it lists another process: its parent.
    let ours = ended(&mut rig.run(&["k"], "ls -l /proc/$$/fd | grep -c -E 'socket|eventpoll|eventfd'"));
    assert_eq!(ours.stdout.trim(), "0", "{ours:?}");
}

#[test]
fn the_command_leads_a_group_of_its_own() {
    let rig = Rig::memory();
    let end = ended(&mut rig.run(&["k"], "read -r _ _ _ _ group _ < /proc/$$/stat; echo $group $$"));
    let (group, pid) = end.stdout.trim().split_once(' ').unwrap();
    assert_eq!(group, pid, "{end:?}");
}

#[test]
fn background_processes_end_before_the_lock_is_released() {
    let rig = Rig::memory();
    let end = ended(&mut rig.run(&["k"], "sleep 600 & echo $! > background; exit 5"));
    assert_eq!(end.status, Some(5), "{end:?}");
    assert!(!is_alive(rig.pid("background")));
}

#[test]
fn background_processes_that_ignore_the_request_are_killed() {
    let rig = Rig::memory();
    let script = "sh -c 'trap \"\" TERM; echo $$ > background; while :; do sleep 0.05; done' & \
                  while ! test -s background; do sleep 0.01; done; exit 0";
    let end = ended(&mut rig.run(&["--grace", "200ms", "k"], script));
    assert_eq!(end.status, Some(0), "{end:?}");
    assert!(!is_alive(rig.pid("background")));
}

#[test]
fn nothing_of_ours_is_left_behind() {
    let rig = Rig::memory();
    let run =
        Started::from(&mut rig.run(&["k"], "echo $PPID > wrapper; while ! test -e go; do sleep 0.01; done"));
    let wrapper = rig.pid("wrapper");
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", wrapper.as_raw_pid());
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let started: Vec<_> = children().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(started.len(), 2, "the command and its shepherd");
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!(run.end().status, Some(0));
    for pid in started {
        assert!(!is_alive(rustix::process::Pid::from_raw(pid).unwrap()));
    }
}

/// A process in a pid namespace may be of a session and a group that have no id inside, as after
/// entering a container without a new session.
#[cfg(target_os = "linux")]
#[test]
fn a_session_from_outside_the_pid_namespace_is_no_obstacle() {
    let rig = Rig::memory();
    let mut unshare = vec!["unshare", "--pid", "--fork", "--mount-proc"];
    if !rustix::process::geteuid().is_root() {
        unshare.extend(["--user", "--map-root-user"]);
    }
    let inside = |command: &[&str]| {
        let mut outer = std::process::Command::new(unshare[0]);
        outer.args(&unshare[1..]).args(command).env("DISTLOCK_URL", "memory:").current_dir(rig.folder.path());
        outer
    };
    if !inside(&["true"]).status().is_ok_and(|status| status.success()) {
        println!("not checked: nobody may make a pid namespace here");
        return;
    }
    let script = "\"$0\" run k -- sh -c 'echo held'; read -r _ _ _ _ group session _ < /proc/self/stat; echo $group $session";
    let end = ended(&mut inside(&["sh", "-c", script, env!("CARGO_BIN_EXE_distlock")]));
    assert_eq!(end.stdout, "held\n0 0\n", "{end:?}");
}
