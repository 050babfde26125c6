//! The terminal belongs to the command while it runs, and job control works.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::rig::{PATIENCE, Rig, dead};

/// What the first process of a session is to run; set only in that process.
const SCRIPT: &str = "DISTLOCK_TEST_SESSION";

/// A session with a terminal, and what appears on it.
struct Session {
    leader: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Session {
    fn start(rig: &Rig, script: &str) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let line = File::from(ioctl_tiocgptpeer(&terminal, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
        let leader = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "terminal::first_process_of_a_session", "--nocapture"])
            .current_dir(rig.folder.path())
            .env(SCRIPT, script)
            .env("DISTLOCK_URL", "memory:")
            .env("distlock", env!("CARGO_BIN_EXE_distlock"))
            .stdin(line.try_clone().unwrap())
            .stdout(line.try_clone().unwrap())
            .stderr(line)
            .spawn()
            .unwrap();
        let keyboard = File::from(terminal);
        let mut glass = keyboard.try_clone().unwrap();
        let (pixels, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            // It ends with an error when the last process of the session has gone.
            while let Ok(count @ 1..) = glass.read(&mut bytes) {
                if pixels.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { leader, keyboard, screen, seen: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text has appeared.
    fn shows(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            match self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout) => panic!("`{text}` did not appear: {:?}", self.seen),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended before `{text}`: {:?}", self.seen),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

/// No test: the body of the process that `Session` starts.
#[test]
fn first_process_of_a_session() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    rustix::process::setsid().unwrap();
    rustix::process::ioctl_tiocsctty(std::io::stdin()).unwrap();
    let error = Command::new("sh").args(["-c", &script]).env_remove(SCRIPT).stdin(Stdio::inherit()).exec();
    panic!("{error}");
}

#[test]
fn the_command_reads_the_terminal_and_gives_it_back() {
    let rig = Rig::memory();
    let script = r#"$distlock run k -- sh -c 'read a; echo got:$a'; echo status:$?; read b; echo then:$b"#;
    let mut session = Session::start(&rig, &script.replace('"', ""));
    session.types("one\n");
    session.shows("got:one");
    session.shows("status:0");
    session.types("two\n");
    session.shows("then:two");
}

#[test]
fn a_missing_command_gives_the_terminal_back_too() {
    let rig = Rig::memory();
    let mut session =
        Session::start(&rig, "$distlock run k -- no-such-command; echo status:$?; read b; echo then:$b");
    session.shows("status:127");
    session.types("two\n");
    session.shows("then:two");
}

#[test]
fn interrupting_means_the_command() {
    let rig = Rig::memory();
    let script = "$distlock run k -- sh -c 'trap \"echo caught; exit 5\" INT; echo ready; while :; do sleep 0.05; done'; echo status:$?";
    let mut session = Session::start(&rig, script);
    session.shows("ready");
    session.types("\x03");
    session.shows("caught");
    session.shows("status:5");
}

#[test]
fn suspending_gives_the_shell_its_prompt_and_fg_goes_on() {
    let rig = Rig::memory();
    let script = "set -m; $distlock run k -- sh -c 'echo ready; read a; echo got:$a'; echo suspended:$?; fg; echo status:$?";
    let mut session = Session::start(&rig, script);
    session.shows("ready");
    session.types("\x1a");
    session.shows("suspended:148");
    session.types("one\n");
    session.shows("got:one");
    session.shows("status:0");
}

#[test]
fn a_suspended_command_dies_when_its_lock_runs_out() {
    let rig = Rig::memory();
    let script = "set -m; $distlock run --ttl 2s k -- sh -c 'echo $$ > pid; echo ready; read a; echo got:$a'; echo suspended:$?; read b; fg; echo status:$?";
    let mut session = Session::start(&rig, script);
    session.shows("ready");
    session.types("\x1a");
    session.shows("suspended:148");
    dead(rig.pid("pid"));
    session.types("go on\n");
    session.shows("status:76");
}

#[test]
fn suspending_where_nobody_could_go_on_is_ignored() {
    let rig = Rig::memory();
    let mut session = Session::start(&rig, "exec $distlock run k -- sh -c 'echo ready; read a; echo got:$a'");
    session.shows("ready");
    session.types("\x1a");
    session.types("one\n");
    session.shows("got:one");
}

#[test]
fn a_background_job_leaves_the_terminal_alone() {
    let rig = Rig::memory();
    let script = "set -m; $distlock run k -- sh -c 'echo started > started; while ! test -e stop; do sleep 0.01; done' & read a; echo got:$a; touch stop; wait; echo over";
    let mut session = Session::start(&rig, script);
    assert_eq!(rig.line("started"), "started");
    session.types("one\n");
    session.shows("got:one");
    session.shows("over");
}

#[test]
fn taking_a_lock_away_asks_first() {
    let rig = Rig::memory();
    let mut session = Session::start(&rig, "for i in 1 2; do $distlock force-unlock k; echo status:$?; done");
    session.shows("[y/N]");
    session.types("n\n");
    session.shows("status:1");
    session.types("y\n");
    session.shows("status:0");
}
