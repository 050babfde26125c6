//! Processes of the command that left its process group, such as what `timeout` runs.

use std::os::fd::OwnedFd;

use rustix::process::Signal;

use super::group::ProcessGroup;
use super::procfs;

/// Names the lock's holder in the environment of everything that runs under the lock.
pub(super) const OWNER: &str = "DISTLOCK_OWNER";

/// How often those that were killed are looked for again: one may just have forked.
#[cfg(target_os = "linux")]
const ROUNDS: u32 = 100;
/// How long a killed process may take to be gone.
#[cfg(target_os = "linux")]
const DEATH_TAKES: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The processes of our session that have the owner in their environment, but are not in the group.
///
/// One that made a session of its own is a daemon: it means to outlive what started it. Only Linux
/// lets us see the environment of others; elsewhere there are no strays.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "elsewhere nobody is looked for"))]
pub(super) struct Strays {
    group: ProcessGroup,
    session: Option<i32>,
    mark: Vec<u8>,
    seen: Vec<OwnedFd>,
}

impl Strays {
    /// Of the run whose command leads `group`, under the lock of `owner`. To be called in the
    /// session of the command.
    pub(super) fn of(group: ProcessGroup, owner: &str) -> Self {
        let session = procfs::own().map(|process| process.session);
        Self { group, session, mark: format!("{OWNER}={owner}").into_bytes(), seen: Vec::new() }
    }

    #[cfg(target_os = "linux")]
    fn is_one(&self, process: &procfs::Process) -> bool {
        Some(process.session) == self.session
            && process.group != self.group.id().as_raw_pid()
            && !process.is_over()
            && process.environment().is_some_and(|all| all.split(|b| *b == 0).any(|one| one == self.mark))
    }
}

#[cfg(target_os = "linux")]
impl Strays {
    /// Whether one lives. Looks for more only when all that were found have ended.
    pub(super) fn are_alive(&mut self) -> bool {
        self.seen.retain(is_alive);
        if self.seen.is_empty() {
            self.look();
        }
        !self.seen.is_empty()
    }

    /// Asks all to end; a stopped one has to go on to be able to.
    pub(super) fn terminate(&mut self) {
        self.look();
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Sends SIGKILL to those that the last look found.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills all, and what they start meanwhile, and waits until they are gone.
    pub(super) fn end(&mut self) {
        for _ in 0..ROUNDS {
            if !self.are_alive() {
                return;
            }
            self.kill();
            for process in &self.seen {
                wait(process, &DEATH_TAKES);
            }
        }
    }

    fn look(&mut self) {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        let found = procfs::processes().into_iter().flatten().filter(|process| self.is_one(process));
        self.seen = found
            .filter_map(|process| {
                let handle = pidfd_open(Pid::from_raw(process.id)?, PidfdFlags::empty()).ok()?;
                // Once more: the id may have passed to another process before the handle was there.
                procfs::process(process.id).is_some_and(|process| self.is_one(&process)).then_some(handle)
            })
            .collect();
    }

    fn signal(&self, signal: Signal) {
        for process in &self.seen {
            // It has ended at worst.
            let _ = rustix::process::pidfd_send_signal(process, signal);
        }
    }
}

#[cfg(target_os = "linux")]
fn is_alive(process: &OwnedFd) -> bool {
    !wait(process, &rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })
}

/// Whether the process has ended, after waiting for that at most this long.
#[cfg(target_os = "linux")]
fn wait(process: &OwnedFd, longest: &rustix::event::Timespec) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(longest)).is_ok_and(|ended| ended > 0)
}

#[cfg(not(target_os = "linux"))]
impl Strays {
    pub(super) fn are_alive(&mut self) -> bool {
        false
    }

    pub(super) fn terminate(&mut self) {}

    pub(super) fn kill(&self) {}

    pub(super) fn end(&mut self) {}
}
