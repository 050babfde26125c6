//! What the shepherd tells its wrapper, over its standard output.

use std::io::{self, Read};
use std::process::ChildStdout;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, retry_on_intr, write};
use rustix::stdio::stdout;

/// How long a shepherd may take to start, on a machine with a lot to do.
const START_TAKES: Duration = Duration::from_secs(10);

/// One report, a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// No signal ends the shepherd any more.
    OnGuard,
    /// The command's time is over, and it is killed or told to end now.
    TimeIsOver,
}

impl Report {
    /// Sends it. If nobody hears it, the wrapper is dead, which shows in the orders.
    pub(super) fn send(self) {
        let _ = write(stdout(), &[self.byte()]);
    }

    const fn byte(self) -> u8 {
        match self {
            Self::OnGuard => b'g',
            Self::TimeIsOver => b't',
        }
    }
}

/// The wrapper's end.
#[derive(Debug)]
pub(super) struct Reports {
    pipe: ChildStdout,
    time_is_over: bool,
}

impl Reports {
    /// Waits until the shepherd is on guard.
    pub(super) fn wait_for_guard(mut pipe: ChildStdout) -> io::Result<Self> {
        let timeout = Timespec::try_from(START_TAKES).map_err(io::Error::other)?;
        let ready = retry_on_intr(|| poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&timeout)))?;
        let mut byte = [0];
        if ready == 0 || pipe.read(&mut byte)? == 0 || byte != [Report::OnGuard.byte()] {
            return Err(io::Error::other("it did not start"));
        }
        ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe, time_is_over: false })
    }

    /// Whether the shepherd found the command's time to be over.
    pub(super) fn is_time_over(&mut self) -> bool {
        let mut byte = [0];
        if matches!(self.pipe.read(&mut byte), Ok(1)) {
            self.time_is_over |= byte == [Report::TimeIsOver.byte()];
        }
        self.time_is_over
    }
}
