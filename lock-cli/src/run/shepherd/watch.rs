//! The shepherd's own life.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use distlock::{Clock, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::stdio::{dup2_stdout, stdin, stdout};

use super::orders::{Inbox, Order};
use crate::message::say;
use crate::run::group::ProcessGroup;
use crate::run::signals;

/// Its status when it has done its work, as opposed to having been ended by somebody.
pub(super) const DONE: u8 = 0;
/// It can't do its work.
const BROKEN: u8 = 70;

/// What it says when it is on guard.
const READY: &[u8] = b"!";
/// How long it may take to be, on a machine with a lot to do.
const START_TAKES: Duration = Duration::from_secs(10);

/// Poll runs on a clock that stands still while the machine is suspended; look at the real one this often.
const CLOCK_CHECK: Duration = Duration::from_millis(250);

pub(super) fn main() -> ExitCode {
    // Started through a link, it would go by the link's name.
    let _ = rustix::thread::set_name(c"distlock");
    // Away from the terminal and its hang-ups, and from any folder somebody wants to unmount.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    // Whoever ends a whole service with a signal means the wrapper and the command. The shepherd
    // goes when they have gone.
    let Ok(_deaf) = signals::deafen() else { return ExitCode::from(BROKEN) };
    if report_ready().is_err() {
        return ExitCode::from(BROKEN);
    }
    Watch::default().run()
}

/// Says on standard output that no signal can end this process any more, and lets go of it.
fn report_ready() -> io::Result<()> {
    write(stdout(), READY)?;
    dup2_stdout(File::open("/dev/null")?)?;
    Ok(())
}

/// The wrapper's side of that: whether the shepherd is on guard.
pub(super) fn is_ready(mut report: impl Read + AsFd) -> io::Result<bool> {
    let timeout = Timespec::try_from(START_TAKES).map_err(io::Error::other)?;
    if retry_on_intr(|| poll(&mut [PollFd::new(&report, PollFlags::IN)], Some(&timeout)))? == 0 {
        return Ok(false);
    }
    let mut word = [0; READY.len()];
    Ok(report.read(&mut word)? == READY.len())
}

#[derive(Debug, Default)]
struct Watch {
    inbox: Inbox,
    group: Option<ProcessGroup>,
    until: Option<Instant>,
}

impl Watch {
    fn run(mut self) -> ExitCode {
        let clock = Clock::system();
        loop {
            // Orders first: after a stop, one that prolongs may be waiting.
            match self.receive(self.pause(clock.now())) {
                Ok(true) => {}
                Ok(false) => return self.wrapper_died(),
                Err(_) => return ExitCode::from(BROKEN),
            }
            if self.until.is_some_and(|until| clock.now() >= until) {
                self.kill();
                return ExitCode::from(DONE);
            }
        }
    }

    /// Waits for orders, at most this long, and follows them. `false` when there will be no more.
    fn receive(&mut self, longest: Duration) -> Result<bool, Errno> {
        let stdin = stdin();
        let timeout = Timespec::try_from(longest).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(true),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        let mut bytes = [0; 4096];
        let count = match read(stdin, &mut bytes) {
            Err(Errno::INTR) => return Ok(true),
            result => result?,
        };
        for order in self.inbox.receive(&bytes[..count]) {
            match order {
                Order::Watch(group) => self.group = Some(group),
                Order::Until(instant) => self.until = Some(instant),
            }
        }
        Ok(count > 0)
    }

    fn pause(&self, now: Instant) -> Duration {
        self.until.map_or(CLOCK_CHECK, |until| until.since(now).min(CLOCK_CHECK))
    }

    fn wrapper_died(&self) -> ExitCode {
        if self.group.is_some_and(ProcessGroup::is_alive) {
            self.kill();
            say("the wrapper was killed, so its command was killed too: nobody would renew the lock");
        }
        ExitCode::from(DONE)
    }

    fn kill(&self) {
        if let Some(group) = self.group {
            group.kill();
        }
    }
}
