//! The gate in front of the command: it starts only after everything that guards it is in place.
//!
//! The wrapper starts this program in the launcher's role, in a new process group, with a socket as
//! standard input. When the shepherd knows the group and the group has the terminal, the wrapper
//! sends its own standard input over the socket; the launcher puts that in place and becomes the
//! command. If the wrapper dies before that, the launcher reads the end of the socket and ends.
//!
//! From then on the system kills the command's first process when the wrapper dies, should the
//! shepherd die with it.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::io::{FdFlags, fcntl_setfd, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, getpid};

use super::child::CommandProcess;
use super::group::ProcessGroup;
use super::relaunch::this_program;
use crate::message::say;

pub(super) const ROLE: &str = "__launch";

/// The shell's statuses for a command that is not there and for one that can't be run.
const NOT_FOUND: u8 = 127;
pub(super) const NOT_RUNNABLE: u8 = 126;
/// Nobody is there to see it: the wrapper is dead.
const ABANDONED: u8 = 125;

/// A command that is about to start, in a process and a group of its own.
#[derive(Debug)]
pub(super) struct Launcher {
    process: Child,
    gate: UnixStream,
}

impl Launcher {
    /// Starts the process that becomes the command when the gate is opened.
    ///
    /// To be called on the main thread: the system takes the end of the thread that started a
    /// process for the end of its parent, and only the main thread is sure to live as long as the
    /// wrapper. Commands run in the runtime's `block_on`, which stays on it.
    pub(super) fn start(command: &[OsString], environment: &[(&str, String)]) -> io::Result<Self> {
        let (gate, far_end) = UnixStream::pair()?;
        let process = this_program(ROLE)
            .arg(getpid().as_raw_pid().to_string())
            .args(command)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(far_end)))
            .spawn()?;
        Ok(Self { process, gate })
    }

    /// The group that the process leads.
    pub(super) fn group(&self) -> ProcessGroup {
        ProcessGroup::led_by(Pid::from_child(&self.process))
    }

    /// Lets the process become the command, with our standard input. A launcher that is dropped
    /// instead ends by itself.
    pub(super) fn open(self) -> io::Result<CommandProcess> {
        let stdin = io::stdin();
        let fds = [stdin.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        retry_on_intr(|| sendmsg(&self.gate, &[IoSlice::new(b"go")], &mut ancillary, SendFlags::empty()))?;
        Ok(CommandProcess::new(self.process))
    }
}

/// The launcher's role: the wrapper's process id, and the command.
pub(super) fn main(arguments: Vec<OsString>) -> ExitCode {
    let mut words = arguments.into_iter();
    let wrapper = words.next().and_then(|id| Pid::from_raw(id.to_str()?.parse().ok()?));
    let Some(program) = words.next() else { return ExitCode::from(ABANDONED) };
    match wait_for_stdin() {
        Ok(Some(stdin)) => {
            if let Err(error) = rustix::stdio::dup2_stdin(&stdin) {
                say(&format!("can't pass standard input on: {error}"));
                return ExitCode::from(NOT_RUNNABLE);
            }
        }
        Ok(None) | Err(_) => return ExitCode::from(ABANDONED),
    }
    if !die_with(wrapper) {
        return ExitCode::from(ABANDONED);
    }
    let error = Command::new(&program).args(words).exec();
    let program = program.to_string_lossy();
    if error.kind() == io::ErrorKind::NotFound {
        say(&format!("can't run `{program}`: no such command; is it on the PATH?"));
        return ExitCode::from(NOT_FOUND);
    }
    say(&format!("can't run `{program}`: {error}"));
    ExitCode::from(NOT_RUNNABLE)
}

/// Has the system kill this process when the wrapper dies. `false` if it is dead already.
#[cfg(target_os = "linux")]
fn die_with(wrapper: Option<Pid>) -> bool {
    // Without it the shepherd is the only one to end the command.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // A wrapper that died before this line is not noticed by the system.
    rustix::process::getppid() == wrapper
}

/// Other systems offer no such thing.
#[cfg(not(target_os = "linux"))]
fn die_with(wrapper: Option<Pid>) -> bool {
    rustix::process::getppid() == wrapper
}

/// The wrapper's standard input, or `None` if the wrapper ended before it gave the word.
fn wait_for_stdin() -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0; 2];
    retry_on_intr(|| {
        recvmsg(rustix::stdio::stdin(), &mut [IoSliceMut::new(&mut word)], &mut ancillary, RecvFlags::empty())
    })?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message
            && let Some(stdin) = fds.next()
        {
            // Only its copy as number 0 goes on to the command.
            fcntl_setfd(&stdin, FdFlags::CLOEXEC)?;
            return Ok(Some(stdin));
        }
    }
    Ok(None)
}
