//! The shepherd's own life.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use distlock::{Clock, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::stdio::stdin;

use super::orders::Inbox;
use super::reports::Report;
use crate::message::say;
use crate::run::group::ProcessGroup;
use crate::run::on_lost::OnLost;
use crate::run::signals;
use crate::run::strays::Strays;

/// Poll runs on a clock that stands still while the machine is suspended; look at the real one this often.
const CLOCK_CHECK: Duration = Duration::from_millis(250);

pub(super) fn main(
    group: Option<ProcessGroup>,
    owner: Option<OsString>,
    on_lost: Option<OsString>,
) -> ExitCode {
    let owner = owner.and_then(|owner| owner.into_string().ok());
    let on_lost = on_lost.and_then(|word| OnLost::read(word.to_str()?));
    let (Some(group), Some(owner), Some(on_lost)) = (group, owner, on_lost) else {
        return ExitCode::FAILURE;
    };
    // While we are in the command's session.
    let strays = Strays::of(group, &owner);
    // Not the wrapper's name: whoever ends processes by name must not hit both at once.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"lock-shepherd");
    // Away from the terminal and its hang-ups, and from any folder somebody wants to unmount.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    // Whoever ends a whole service with a signal means the wrapper and the command. The shepherd
    // goes when they have gone.
    let Ok(_deaf) = signals::deafen() else { return ExitCode::FAILURE };
    // If nobody hears it, the wrapper is dead, which the pipe with the orders shows next.
    Report::OnGuard.send();
    Watch { group, on_lost, strays, inbox: Inbox::default(), until: None }.run()
}

#[derive(Debug)]
struct Watch {
    group: ProcessGroup,
    on_lost: OnLost,
    strays: Strays,
    inbox: Inbox,
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
                Err(_) => return ExitCode::FAILURE,
            }
            if self.until.is_some_and(|until| clock.now() >= until) {
                // Before the kill: whoever sees the dead command finds this too.
                Report::TimeIsOver.send();
                if self.on_lost == OnLost::Kill {
                    self.group.kill();
                    self.strays.end();
                    return ExitCode::SUCCESS;
                }
                self.group.terminate();
                self.strays.terminate();
                // Still there for the wrapper's death.
                self.until = None;
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
        if let Some(until) = self.inbox.receive(&bytes[..count]) {
            self.until = Some(until);
        }
        Ok(count > 0)
    }

    fn pause(&self, now: Instant) -> Duration {
        self.until.map_or(CLOCK_CHECK, |until| until.since(now).min(CLOCK_CHECK))
    }

    fn wrapper_died(mut self) -> ExitCode {
        if self.group.is_alive() {
            self.group.kill();
        }
        self.strays.end();
        // Also if it is gone by now: the system ends the command's first process by itself.
        say("the wrapper was killed, so its command was killed too: nobody would renew the lock");
        ExitCode::SUCCESS
    }
}
