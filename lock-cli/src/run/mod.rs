//! Running a command under a lock: the processes, the signals and the terminal.
//!
//! Three processes take part. The *wrapper* is the one the user started: it holds and renews the
//! lock. The *command* runs in a process group of its own, behind a gate that opens when all is
//! ready. The *shepherd* kills that group when the wrapper can't.

mod child;
mod group;
mod launcher;
mod procfs;
mod relaunch;
mod shepherd;
mod signals;
mod supervise;
mod terminal;
mod timetable;

use std::process::ExitCode;

pub(crate) use self::signals::{Signals, asks_to_end};
pub(crate) use self::supervise::{Outcome, Supervision};

/// Plays the role that `run` started this process for, if it did.
pub(crate) fn second_role() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next()?;
    match role.to_str()? {
        launcher::ROLE => Some(launcher::main(arguments.collect())),
        shepherd::ROLE => Some(shepherd::main()),
        terminal::ROLE => Some(terminal::main(arguments.next().as_ref().and_then(|group| group.to_str()))),
        _ => None,
    }
}
