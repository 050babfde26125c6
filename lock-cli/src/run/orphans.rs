//! What process 1 owes to others: it inherits their children, and must reap them.

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

use super::procfs;

/// Reaps the dead among the orphans that this process inherited, if it is process 1. `own` are children
/// of its own, which somebody waits for.
pub(super) fn reap(own: &[Pid]) {
    if getpid() != Pid::INIT {
        return;
    }
    for zombie in procfs::zombies_of(getpid()) {
        if !own.contains(&zombie) {
            // How it ended is nobody's business.
            let _ = waitpid(Some(zombie), WaitOptions::NOHANG);
        }
    }
}
