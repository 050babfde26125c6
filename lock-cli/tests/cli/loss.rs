//! What happens to the command when its lock is lost, or about to be.

use std::time::Duration;

use rustix::process::Signal;
use sqlx::{Connection, SqliteConnection};

use crate::rig::{HEART, Rig, Started, dead, ended, is_alive, last_beat, uptime};

/// Ends properly when asked to, and says so.
const POLITE: &str = "trap 'echo TERM > told; exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done";

/// Somebody else who writes to the database and does not come to an end.
pub(crate) struct Writer {
    runtime: tokio::runtime::Runtime,
    connection: SqliteConnection,
}

impl Writer {
    pub(crate) fn start(rig: &Rig) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let path = rig.path("distlock/locks.db");
        let connection = runtime.block_on(async {
            let mut connection =
                SqliteConnection::connect(&format!("sqlite:{}", path.display())).await.unwrap();
            sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
            connection
        });
        Self { runtime, connection }
    }

    pub(crate) fn end(mut self) {
        self.runtime.block_on(sqlx::query("ROLLBACK").execute(&mut self.connection)).unwrap();
    }
}

#[test]
fn a_lock_that_is_taken_away_ends_the_command_and_outranks_its_status() {
    let rig = Rig::sqlite();
    let run = Started::from(&mut rig.run(&["--ttl", "3s", "k"], POLITE));
    rig.pid("pid");
    assert_eq!(ended(&mut rig.distlock(&["force-unlock", "--yes", "k"])).status, Some(0));
    let end = run.end();
    assert_eq!(end.status, Some(76), "{end:?}");
    assert_eq!(rig.line("told"), "TERM");
    assert!(end.stderr.contains("lost") && end.stderr.contains("taken away"), "{end:?}");
}

#[test]
fn a_command_that_does_not_listen_is_killed_after_the_grace() {
    let rig = Rig::sqlite();
    let deaf = format!("trap '' TERM; {HEART}");
    let run = Started::from(&mut rig.run(&["--ttl", "3s", "--grace", "300ms", "k"], &deaf));
    let command = rig.pid("pid");
    assert_eq!(ended(&mut rig.distlock(&["force-unlock", "--yes", "k"])).status, Some(0));
    let end = run.end();
    assert_eq!(end.status, Some(76), "{end:?}");
    assert!(end.stderr.contains("sending SIGTERM"), "{end:?}");
    dead(command);
}

#[test]
fn a_loss_that_shows_only_at_the_release_counts_too() {
    let rig = Rig::sqlite();
    let script = format!("{} force-unlock --yes k > taken; exit 0", env!("CARGO_BIN_EXE_distlock"));
    let end = ended(&mut rig.run(&["--ttl", "60s", "k"], &script));
    assert_eq!(end.status, Some(76), "{end:?}");
}

#[test]
fn b007_a_store_that_does_not_answer_ends_the_command_before_the_lock_is_over() {
    let rig = Rig::sqlite();
    let deaf = format!("trap 'echo TERM > told' TERM; {HEART}");
    let run = Started::from(&mut rig.run(&["--ttl", "2s", "--grace", "500ms", "k"], &deaf));
    let command = rig.pid("pid");
    let writer = Writer::start(&rig);
    // No renewal can succeed from here on, so the lock is over one ttl from now at the latest.
    let over = uptime() + Duration::from_secs(2);
    dead(command);
    assert!(last_beat(&rig) <= over, "last beat {:?}, lock over at {over:?}", last_beat(&rig));
    let end = run.end();
    writer.end();
    assert_eq!(end.status, Some(76), "{end:?}");
    assert_eq!(rig.line("told"), "TERM");
    assert!(end.stderr.contains("not being renewed"), "{end:?}");
}

#[test]
fn a_store_that_answers_again_in_time_changes_nothing() {
    let rig = Rig::sqlite();
    let run = Started::from(&mut rig.run(
        &["--ttl", "6s", "--grace", "100ms", "k"],
        "echo $$ > pid; while ! test -e go; do sleep 0.01; done; exit 7",
    ));
    rig.pid("pid");
    let writer = Writer::start(&rig);
    // Past the time when it would have been renewed, well before the end.
    let later = uptime() + Duration::from_secs(3);
    crate::rig::eventually("some time", || (uptime() >= later).then_some(()));
    writer.end();
    let renewed = || ended(&mut rig.distlock(&["--format", "json", "try", "k"]));
    assert_eq!(renewed().status, Some(75));
    std::fs::write(rig.path("go"), "").unwrap();
    let end = run.end();
    assert_eq!(end.status, Some(7), "{end:?}");
}

#[test]
fn an_unknown_release_keeps_the_commands_status_and_warns() {
    let rig = Rig::sqlite();
    let run = Started::from(
        &mut rig
            .run(&["--ttl", "30s", "k"], "echo $$ > pid; while ! test -e go; do sleep 0.01; done; exit 7"),
    );
    rig.pid("pid");
    let writer = Writer::start(&rig);
    std::fs::write(rig.path("go"), "").unwrap();
    let end = run.end();
    writer.end();
    assert_eq!(end.status, Some(7), "{end:?}");
    assert!(end.stderr.contains("30s") && end.stderr.lines().count() == 1, "{end:?}");
}

#[test]
fn the_longest_hold_ends_a_command_that_hangs() {
    let rig = Rig::sqlite();
    let options = ["--ttl", "2s", "--grace", "500ms", "--max-hold", "300ms", "k"];
    let end = ended(&mut rig.run(&options, POLITE));
    assert_eq!(end.status, Some(76), "{end:?}");
    assert_eq!(rig.line("told"), "TERM");
}

#[test]
fn a_command_that_is_only_told_is_not_killed() {
    let rig = Rig::sqlite();
    let script =
        "trap 'echo TERM > told' TERM; echo $$ > pid; while ! test -e go; do sleep 0.01; done; exit 4";
    let options = ["--ttl", "1s", "--grace", "200ms", "--on-lost", "signal", "k"];
    let run = Started::from(&mut rig.run(&options, script));
    let command = rig.pid("pid");
    let writer = Writer::start(&rig);
    assert_eq!(rig.line("told"), "TERM");
    // Well past the time when it would have been killed.
    let later = uptime() + Duration::from_secs(2);
    crate::rig::eventually("some time", || (uptime() >= later).then_some(()));
    writer.end();
    assert!(is_alive(command));
    std::fs::write(rig.path("go"), "").unwrap();
    let end = run.end();
    assert_eq!(end.status, Some(76), "{end:?}");
    assert!(end.stderr.contains("sending SIGTERM") && !end.stderr.contains("SIGKILL"), "{end:?}");
}

#[test]
fn a_command_that_is_only_told_is_told_of_a_stopped_wrapper_too() {
    let rig = Rig::sqlite();
    let script = "trap 'echo TERM > told' TERM; echo $$ > pid; while ! test -e go; do sleep 0.01; done";
    let options = ["--ttl", "1s", "--grace", "200ms", "--on-lost", "signal", "k"];
    let run = Started::from(&mut rig.run(&options, script));
    let command = rig.pid("pid");
    run.signal(Signal::STOP);
    assert_eq!(rig.line("told"), "TERM");
    assert!(is_alive(command));
    run.signal(Signal::CONT);
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!(run.end().status, Some(76));
}

#[test]
fn a_command_whose_loss_is_only_warned_of_goes_on() {
    let rig = Rig::sqlite();
    let script = "trap 'echo TERM > told' TERM; echo $$ > pid; while ! test -e go; do sleep 0.01; done";
    let options = ["--ttl", "1s", "--on-lost", "warn", "k"];
    let run = Started::from(&mut rig.run(&options, script));
    let command = rig.pid("pid");
    assert_eq!(ended(&mut rig.distlock(&["force-unlock", "--yes", "k"])).status, Some(0));
    // Well past the time when the loss shows, and when the command would have been killed.
    let later = uptime() + Duration::from_secs(2);
    crate::rig::eventually("some time", || (uptime() >= later).then_some(()));
    assert!(is_alive(command));
    std::fs::write(rig.path("go"), "").unwrap();
    let end = run.end();
    assert_eq!(end.status, Some(76), "a lost lock does not pass unseen: {end:?}");
    assert!(end.stderr.contains("goes on without it") && end.stderr.contains("taken away"), "{end:?}");
    assert!(!rig.path("told").exists(), "{end:?}");
}

#[test]
fn even_then_the_death_of_the_wrapper_is_that_of_the_command() {
    for on_lost in ["signal", "warn"] {
        let rig = Rig::sqlite();
        let script = "trap '' TERM; echo $$ > pid; sleep 600 & echo $! > background; wait; sleep 600";
        let run = Started::from(&mut rig.run(&["--on-lost", on_lost, "k"], script));
        let (command, background) = (rig.pid("pid"), rig.pid("background"));
        run.signal(Signal::KILL);
        dead(command);
        dead(background);
    }
}
