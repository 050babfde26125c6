//! The command while it runs.

use std::process::Child;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use super::group::ProcessGroup;

/// The command's first process, and the group it leads.
#[derive(Debug)]
pub(super) struct CommandProcess {
    process: Child,
    pid: Pid,
}

/// What the command's first process has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A signal stopped it, with this number.
    Stopped(i32),
    /// It ended.
    Ended(Ending),
}

/// How the command's first process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a status of its own.
    Exited(i32),
    /// By a signal.
    Killed(i32),
}

impl Ending {
    /// The status a shell would report.
    pub(crate) fn status(self) -> u8 {
        let status = match self {
            Self::Exited(code) => code & 0xff,
            Self::Killed(signal) => 128 + (signal & 0x7f),
        };
        u8::try_from(status).unwrap_or(u8::MAX)
    }
}

impl CommandProcess {
    pub(super) fn new(process: Child) -> Self {
        let pid = Pid::from_child(&process);
        Self { process, pid }
    }

    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) const fn group(&self) -> ProcessGroup {
        ProcessGroup::led_by(self.pid)
    }

    /// What happened since the last call, if anything did. The ended process is not reaped, so that
    /// its group's id stays its own.
    pub(super) fn change(&self) -> Option<Change> {
        let look = |what| waitid(WaitId::Pid(self.pid), what | WaitIdOptions::NOHANG);
        match look(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => return Some(Change::Ended(ending(&status))),
            // Nobody else reaps it, so this can't be; but if it is gone, it has ended.
            Err(_) => return Some(Change::Ended(Ending::Exited(i32::from(u8::MAX)))),
            Ok(None) => {}
        }
        let stopped = look(WaitIdOptions::STOPPED).ok().flatten()?;
        stopped.stopping_signal().map(Change::Stopped)
    }

    /// Reaps the ended process.
    pub(super) fn reap(&mut self) {
        // It has ended, so this neither blocks nor fails.
        let _ = self.process.wait();
    }
}

fn ending(status: &WaitIdStatus) -> Ending {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, Some(signal)) => Ending::Killed(signal),
        (None, None) => Ending::Exited(i32::from(u8::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_the_shells() {
        for (ending, status) in [
            (Ending::Exited(0), 0),
            (Ending::Exited(3), 3),
            (Ending::Exited(255), 255),
            (Ending::Killed(9), 137),
            (Ending::Killed(15), 143),
        ] {
            assert_eq!(ending.status(), status, "{ending:?}");
        }
    }
}
