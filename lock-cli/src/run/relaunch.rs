//! Starting this same program in another role.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use std::os::unix::process::CommandExt;

/// The link to the running program: it works even when the file was replaced during a long wait.
const RUNNING_PROGRAM: &str = "/proc/self/exe";

/// This program once more, in the role of that name.
pub(super) fn this_program(role: impl AsRef<OsStr>) -> Command {
    let program = Path::new(RUNNING_PROGRAM);
    let mut command = if program.exists() {
        Command::new(program)
    } else {
        Command::new(std::env::current_exe().unwrap_or_else(|_| "distlock".into()))
    };
    command.arg0("distlock").arg(role);
    command
}
