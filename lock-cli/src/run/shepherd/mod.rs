//! The shepherd: a second process that ends the command when the wrapper can't.
//!
//! It is started for one process group, and told over a pipe until when that may live. The
//! shepherd kills the group at that instant (or tells it to end, if that is all that is wanted of a
//! lost lock), and kills it at once when the pipe ends, which is when the wrapper died. So the command outlives its lock neither with a killed wrapper nor with one that
//! is stopped or starved.

mod orders;
mod reports;
mod watch;

use std::ffi::OsString;
use std::io::{self, PipeWriter, Write};
use std::process::{Child, ExitCode, Stdio};

use distlock::{Clock, Instant, OwnerId};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use self::reports::Reports;
use super::group::ProcessGroup;
use super::on_lost::OnLost;
use super::procfs;
use super::relaunch::this_program;

pub(super) const ROLE: &str = "__shepherd";

/// The wrapper's end.
#[derive(Debug)]
pub(super) struct Shepherd {
    process: Child,
    orders: PipeWriter,
    reports: Reports,
    group: ProcessGroup,
    owner: OwnerId,
    on_lost: OnLost,
    clock: Clock,
    until: Instant,
}

impl Shepherd {
    /// Starts a shepherd for `group` and its strays under the lock of `owner`, which may live until
    /// `until` on the lease's clock, and waits until it is on guard.
    pub(super) fn start(
        group: ProcessGroup,
        owner: OwnerId,
        on_lost: OnLost,
        clock: Clock,
        until: Instant,
    ) -> io::Result<Self> {
        let (far_end, orders) = io::pipe()?;
        // A shepherd that does not read must not block the wrapper.
        fcntl_setfl(&orders, fcntl_getfl(&orders)? | OFlags::NONBLOCK)?;
        // The group stands on its command line: a wrapper that dies from now on is missed at once.
        let mut process = this_program(ROLE)
            .arg(group.id().as_raw_pid().to_string())
            .arg(owner.to_string())
            .arg(on_lost.word())
            .stdin(far_end)
            .stdout(Stdio::piped())
            .spawn()?;
        let reports = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let reports = Reports::wait_for_guard(reports).inspect_err(|_| {
            // Before its orders end, which it would take for our death.
            let _ = process.kill();
            let _ = process.wait();
        })?;
        let mut shepherd = Self { process, orders, reports, group, owner, on_lost, clock, until };
        shepherd.order(until)?;
        Ok(shepherd)
    }

    /// The process id, for those who reap strangers.
    pub(super) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.process)
    }

    /// Lets the group live until `until`. A shepherd that does not answer to orders is replaced.
    pub(super) fn allow_until(&mut self, until: Instant) -> io::Result<()> {
        if until == self.until {
            return Ok(());
        }
        if self.order(until).is_err() && !self.has_acted() {
            return self.replace(until);
        }
        self.until = until;
        Ok(())
    }

    /// Replaces a shepherd that somebody ended or stopped. One that ended because it has acted is
    /// left so.
    pub(super) fn keep_alive(&mut self) -> io::Result<()> {
        let is_off_guard = self.process.try_wait()?.is_some() || procfs::is_stopped(self.pid());
        if is_off_guard && !self.has_acted() {
            return self.replace(self.until);
        }
        Ok(())
    }

    /// Whether the shepherd found the time to be over, and acted on the group.
    pub(super) fn has_acted(&mut self) -> bool {
        self.reports.is_time_over()
    }

    /// Sends the shepherd home. The group must be empty.
    pub(super) fn dismiss(mut self) {
        // By force, since it may be stopped. It has no work left that could be cut short.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn replace(&mut self, until: Instant) -> io::Result<()> {
        let fresh = Self::start(self.group, self.owner, self.on_lost, self.clock.clone(), until)?;
        let old = std::mem::replace(self, fresh);
        old.dismiss();
        Ok(())
    }

    /// The instant on the clock that all processes of the machine share; the lease's may be another.
    fn in_common(&self, instant: Instant) -> Instant {
        // In this order: a pause between the two readings makes the result early, never late.
        let now = Clock::system().now();
        now.plus(instant.since(self.clock.now()))
    }

    fn order(&mut self, until: Instant) -> io::Result<()> {
        // Shorter than what a pipe takes in one piece, so it arrives whole or not at all.
        let line = orders::line(self.in_common(until));
        match self.orders.write(line.as_bytes()) {
            Ok(written) if written == line.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) => Err(error),
        }
    }
}

/// The shepherd's role.
pub(super) fn main(
    group: Option<ProcessGroup>,
    owner: Option<OsString>,
    on_lost: Option<OsString>,
) -> ExitCode {
    watch::main(group, owner, on_lost)
}
