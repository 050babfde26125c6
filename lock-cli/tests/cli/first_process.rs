//! As process 1 of a container, as a service and as a cron job.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Ended, Rig, Started, ended, eventually};

/// `distlock run k -- sh -c SCRIPT` as process 1 of a pid namespace; `None` where nobody may make one.
#[cfg(target_os = "linux")]
fn as_first(rig: &Rig, script: &str) -> Option<Command> {
    let mut unshare = vec!["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    if !rustix::process::geteuid().is_root() {
        unshare.extend(["--user", "--map-root-user"]);
    }
    let outer = |command: &[&str]| {
        let mut outer = Command::new(unshare[0]);
        outer.args(&unshare[1..]).args(command).current_dir(rig.folder.path());
        outer.env("DISTLOCK_URL", "memory:").env_remove("DISTLOCK_LOG");
        outer
    };
    if !outer(&["true"]).status().is_ok_and(|status| status.success()) {
        println!("not checked: nobody may make a pid namespace here");
        return None;
    }
    Some(outer(&[env!("CARGO_BIN_EXE_distlock"), "run", "k", "--", "sh", "-c", script]))
}

#[cfg(target_os = "linux")]
#[test]
fn process_1_reaps_the_orphans_of_others() {
    let rig = Rig::memory();
    // The orphan's parent ends at once, so process 1 inherits it; a zombie keeps its folder in /proc.
    let script = "sh -c 'sleep 0.1 & echo $! > orphan'; read -r id < orphan; test -d /proc/$id || exit 1; \
                  n=0; while test -d /proc/$id; do n=$((n + 1)); test $n -lt 1500 || exit 2; sleep 0.02; done; \
                  read -r me _ < /proc/$PPID/stat; echo parent $me; exit 7";
    let Some(mut command) = as_first(&rig, script) else { return };
    let end = ended(&mut command);
    assert_eq!((end.status, end.stdout.as_str()), (Some(7), "parent 1\n"), "{end:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn process_1_passes_on_the_request_to_end() {
    let rig = Rig::memory();
    let script = "trap 'echo TERM > told; exit 3' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let Some(mut command) = as_first(&rig, script) else { return };
    let unshare = Started::from(&mut command);
    rig.line("pid");
    let id = unshare.pid().as_raw_pid();
    let first = eventually("process 1", || {
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
    });
    kill_process(first, Signal::TERM).unwrap();
    let end = unshare.end();
    assert_eq!((end.status, rig.line("told").as_str()), (Some(3), "TERM"), "{end:?}");
}

/// The children of a process.
#[cfg(target_os = "linux")]
fn children(of: Pid) -> Vec<Pid> {
    let of = of.as_raw_pid();
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// A service manager signals all processes of a service at once.
#[cfg(all(target_os = "linux", feature = "sqlite"))]
#[test]
fn a_service_that_is_ended_as_a_whole_ends_in_order_and_frees_its_lock() {
    let rig = Rig::sqlite();
    let script = "trap 'sleep 0.2; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let run = Started::from(&mut rig.run(&["--ttl", "60s", "k"], script));
    rig.pid("pid");
    let all = children(run.pid());
    assert_eq!(all.len(), 2, "the command and its shepherd");
    for process in all {
        let _ = kill_process(process, Signal::TERM);
    }
    run.signal(Signal::TERM);
    let end = run.end();
    assert!(end.status == Some(0) && !end.stderr.contains("distlock"), "{end:?}");
    assert_eq!(ended(&mut rig.distlock(&["try", "k"])).status, Some(0));
}

#[cfg(feature = "sqlite")]
#[test]
fn a_cron_job_needs_no_terminal_no_home_and_no_folder() {
    let rig = Rig::sqlite();
    let url = format!("sqlite:{}", rig.path("cron.db").display());
    let job = |script: &str| -> Ended {
        let mut cron = Command::new("setsid");
        cron.args([
            "--wait",
            env!("CARGO_BIN_EXE_distlock"),
            "run",
            "--wait",
            "no",
            "k",
            "--",
            "sh",
            "-c",
            script,
        ])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("DISTLOCK_URL", &url)
        .current_dir("/")
        .stdin(std::process::Stdio::null());
        ended(&mut cron)
    };
    let end = job("echo $DISTLOCK_KEY; pwd");
    assert_eq!((end.status, end.stdout.as_str(), end.stderr.as_str()), (Some(0), "k\n/\n", ""), "{end:?}");
    assert_eq!(job("exit 9").status, Some(9));
}
