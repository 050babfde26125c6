//! Running a command under a lock: the processes, the signals and the terminal.
//!
//! Three processes take part. The *wrapper* is the one the user started: it holds and renews the
//! lock. The *command* runs in a process group of its own, behind a gate that opens when all is
//! ready. The *shepherd* kills that group when the wrapper can't.

mod child;
mod group;
mod launcher;
mod on_lost;
mod orphans;
mod procfs;
mod relaunch;
mod shepherd;
mod signals;
mod strays;
mod supervise;
mod terminal;
mod timetable;

use std::ffi::OsString;
use std::process::ExitCode;

use self::group::ProcessGroup;

pub(crate) use self::on_lost::OnLost;
pub(crate) use self::procfs::own_group;
pub(crate) use self::signals::{Signals, asked_to_end};
pub(crate) use self::supervise::{Outcome, Supervision};

/// Plays the role that `run` started this process for, if it did.
pub(crate) fn second_role() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next()?;
    let group = |argument: Option<OsString>| ProcessGroup::read(argument?.to_str()?);
    match role.to_str()? {
        launcher::ROLE => Some(launcher::main(arguments.collect())),
        shepherd::ROLE => Some(shepherd::main(group(arguments.next()), arguments.next(), arguments.next())),
        terminal::ROLE => Some(terminal::main(group(arguments.next()))),
        _ => None,
    }
}
