//! The terminal, and who is in its foreground.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};

use rustix::fs::OFlags;
use rustix::process::Pid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::group::ProcessGroup;
use super::procfs::own_group;
use super::relaunch::this_program;

pub(super) const ROLE: &str = "__give_back";

/// The terminal that controls this process. Cron jobs and services have none.
#[derive(Debug)]
pub(super) struct Terminal(File);

impl Terminal {
    pub(super) fn controlling() -> Option<Self> {
        let flags = OFlags::NOCTTY.bits().cast_signed();
        OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty").ok().map(Self)
    }

    /// Puts `group` into the foreground, if we are there ourselves: a background job takes no
    /// terminal from anybody.
    pub(super) fn hand_to(&self, group: ProcessGroup) {
        let front = self.foreground();
        if front.is_some() && front == own_group() {
            // It fails only if the group is empty by now.
            let _ = tcsetpgrp(&self.0, group.id());
        }
    }

    /// Puts our own group back into the foreground, if `group` is there. Its first process must not
    /// be reaped yet.
    ///
    /// A background process that does this itself is stopped by SIGTTOU, so a process that joins the
    /// foreground group does it for us.
    pub(super) fn take_back_from(&self, group: ProcessGroup) {
        if self.foreground() != Some(group.id()) {
            return;
        }
        let (Ok(terminal), Some(own)) = (self.0.try_clone(), own_group()) else { return };
        // Should it fail, an interactive shell takes the terminal back by itself all the same.
        let _ = this_program(ROLE)
            .arg(own.as_raw_pid().to_string())
            .process_group(group.id().as_raw_pid())
            .stdin(terminal)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.0).ok()
    }
}

/// The role of the process that gives the terminal, its standard input, back to a group.
pub(super) fn main(group: Option<ProcessGroup>) -> ExitCode {
    match group.map(|group| tcsetpgrp(rustix::stdio::stdin(), group.id())) {
        Some(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
