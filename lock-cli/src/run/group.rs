//! The process group that the command runs in.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use super::procfs;

/// A process group. Its id stays reserved while it has a member, or while its leader is not reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessGroup(Pid);

impl ProcessGroup {
    /// The group that `leader` leads.
    pub(super) const fn led_by(leader: Pid) -> Self {
        Self(leader)
    }

    /// The group whose id was written on a command line.
    pub(super) fn read(id: &str) -> Option<Self> {
        id.parse().ok().and_then(Pid::from_raw).map(Self)
    }

    pub(super) const fn id(self) -> Pid {
        self.0
    }

    /// Sends a signal to every member. A group without members is no error.
    pub(super) fn signal(self, signal: Signal) {
        // The only failures are an empty group and members of other users, which nobody can help.
        let _ = kill_process_group(self.0, signal);
    }

    /// Asks every member to end; a stopped one has to go on to be able to.
    pub(super) fn terminate(self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Ends every member, in one step: none can fork away.
    pub(super) fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Whether a member lives. Reaps members that have become our children, as happens to process 1.
    pub(super) fn is_alive(self) -> bool {
        self.reap();
        if test_kill_process_group(self.0) == Err(Errno::SRCH) {
            return false;
        }
        // A zombie that its parent does not reap answers too, but does nothing any more.
        procfs::live_members(self.0).is_none_or(|members| members > 0)
    }

    fn reap(self) {
        while let Ok(Some(_)) =
            waitid(WaitId::Pgid(Some(self.0)), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
        {}
    }
}
