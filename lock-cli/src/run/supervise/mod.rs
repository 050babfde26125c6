//! Keeps a command and its lock together: neither outlives the other.

mod job_control;

use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

use distlock::{Clock, LockGuard, LockState};
use rustix::process::{Signal, kill_process};

use super::child::{Change, CommandProcess, Ending};
use super::launcher::{Launcher, NOT_RUNNABLE};
use super::on_lost::OnLost;
use super::orphans;
use super::shepherd::Shepherd;
use super::signals::{Signals, asks_to_end};
use super::strays::{OWNER, Strays};
use super::terminal::Terminal;
use super::timetable::{Due, Timetable};
use crate::durations::roughly;
use crate::exit::{Exit, Failure};
use crate::message::say;

/// Timers run on a clock that stands still while the machine is suspended; look at the real one this often.
const CLOCK_CHECK: Duration = Duration::from_millis(250);
/// How often a group that was told to end is looked at.
const GROUP_CHECK: Duration = Duration::from_millis(5);

/// A command that runs under a lock.
#[derive(Debug)]
pub(crate) struct Supervision<'a> {
    guard: &'a LockGuard,
    clock: Clock,
    grace: Duration,
    signals: &'a mut Signals,
    terminal: Option<Terminal>,
    command: CommandProcess,
    strays: Strays,
    shepherd: Shepherd,
    timetable: Timetable,
    state: LockState,
    done: Due,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// The command's own end.
    pub(crate) ending: Ending,
    /// Whether it was told to end, or was ended, because the lock could not be kept.
    pub(crate) cut_short: bool,
    /// Whether the lock was gone before its time was over: then somebody took it away.
    pub(crate) taken: bool,
    /// Whether its whole process group is gone, and who strayed from it, so that the lock may be released.
    pub(crate) group_is_empty: bool,
}

impl<'a> Supervision<'a> {
    /// Starts the command. Nothing of it runs before its guards are in place, nor after an error.
    pub(crate) fn start(
        guard: &'a LockGuard,
        clock: Clock,
        grace: Duration,
        on_lost: OnLost,
        command: &[OsString],
        signals: &'a mut Signals,
    ) -> Result<Self, Failure> {
        let environment = [
            ("DISTLOCK_KEY", guard.key().to_string()),
            ("DISTLOCK_TOKEN", guard.token().to_string()),
            (OWNER, guard.owner().to_string()),
        ];
        let launcher = Launcher::start(command, &environment).map_err(|error| {
            Failure::new(
                Exit::Command(NOT_RUNNABLE),
                format!("can't start a process for the command: {error}"),
            )
        })?;
        let mut timetable = Timetable::new(on_lost, guard.ttl(), grace, guard.valid_until());
        let mut shepherd = Shepherd::start(
            launcher.group(),
            guard.owner(),
            on_lost,
            clock.clone(),
            timetable.act_at_latest(),
        )
        .map_err(|error| Failure::system("can't start the process that guards the command", error))?;
        let state = guard.state();
        // The start may have taken time, and the lock been renewed meanwhile.
        timetable.renewed(guard.valid_until());
        let told = shepherd.allow_until(timetable.act_at_latest());
        told.map_err(|error| Failure::system("can't tell the process that guards the command", error))?;
        if matches!(state, LockState::Lost(_)) || timetable.due(clock.now()) != Due::Nothing {
            // Before the launcher ends, or it would take that for our death.
            shepherd.dismiss();
            return Err(Failure::new(
                Exit::Lost,
                format!(
                    "`{}`: the lock was all but over before the command could start, so it was not started",
                    guard.key()
                ),
            ));
        }
        let terminal = Terminal::controlling();
        let group = launcher.group();
        if let Some(terminal) = &terminal {
            terminal.hand_to(group);
        }
        let command = match launcher.open() {
            Ok(command) => command,
            Err(error) => {
                if let Some(terminal) = &terminal {
                    terminal.take_back_from(group);
                }
                shepherd.dismiss();
                return Err(Failure::new(
                    Exit::Command(NOT_RUNNABLE),
                    format!("can't start the command: {error}"),
                ));
            }
        };
        let_go_of_stdio();
        Ok(Self {
            guard,
            clock,
            grace,
            signals,
            terminal,
            command,
            strays: Strays::of(group, &guard.owner().to_string()),
            shepherd,
            timetable,
            state,
            done: Due::Nothing,
        })
    }

    /// Watches until the command and everything in its group has ended.
    pub(crate) async fn run(mut self) -> Outcome {
        let ending = self.until_it_ends().await;
        if let Some(terminal) = &self.terminal {
            terminal.take_back_from(self.command.group());
        }
        self.command.reap();
        let group_is_empty = self.until_its_group_ends().await;
        let cut_short = self.done != Due::Nothing || self.was_ended_in_our_stead(ending);
        self.shepherd.dismiss();
        Outcome { ending, cut_short, taken: self.timetable.was_taken(), group_is_empty }
    }

    /// Whether the shepherd ended the command, while this process was stopped or starved.
    fn was_ended_in_our_stead(&mut self, ending: Ending) -> bool {
        let was_killed = ending == Ending::Killed(Signal::KILL.as_raw());
        (was_killed || self.timetable.on_lost() == OnLost::Signal) && self.shepherd.has_acted()
    }

    async fn until_it_ends(&mut self) -> Ending {
        loop {
            match self.command.change() {
                Some(Change::Ended(ending)) => return ending,
                Some(Change::Stopped(signal)) => self.stop_as_well(signal).await,
                None => {}
            }
            self.look_at_lease();
            self.do_what_is_due();
            let pause = self.pause();
            tokio::select! {
                signal = self.signals.next() => self.pass_on(signal),
                () = changed(self.guard, self.state) => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Background processes of the command are under the lock too: they end before it is released.
    async fn until_its_group_ends(&mut self) -> bool {
        let group = self.command.group();
        if !self.is_anybody_left() {
            return true;
        }
        group.terminate();
        self.strays.terminate();
        let mut kill_at = self.clock.now().plus(self.grace);
        let give_up_at = kill_at.plus(self.guard.ttl());
        while self.is_anybody_left() {
            self.look_at_lease();
            let now = self.clock.now();
            if now >= kill_at.min(self.timetable.kill_at()) {
                group.kill();
                self.strays.kill();
            }
            if now >= give_up_at {
                return false;
            }
            tokio::select! {
                signal = self.signals.next() => if asks_to_end(signal) {
                    kill_at = now;
                },
                () = tokio::time::sleep(GROUP_CHECK) => {}
            }
        }
        true
    }

    fn is_anybody_left(&mut self) -> bool {
        self.command.group().is_alive() || self.strays.are_alive()
    }

    /// Takes in what happened to the lease, and passes it on to the shepherd.
    fn look_at_lease(&mut self) {
        // The state first: a validity read after it is at least as good.
        let state = self.guard.state();
        let now = self.clock.now();
        match state {
            LockState::Lost(_) => self.timetable.lost(now),
            _ => self.timetable.renewed(self.guard.valid_until()),
        }
        if state != self.state {
            self.announce(state);
            self.state = state;
        }
        let told = self.shepherd.allow_until(self.timetable.act_at_latest());
        if let Err(error) = told.and_then(|()| self.shepherd.keep_alive()) {
            say(&format!("can't replace the process that guards the command, going on without: {error}"));
        }
    }

    fn announce(&self, state: LockState) {
        let key = self.guard.key();
        match state {
            LockState::Held => say(&format!("`{key}`: the store answers again, the lock is still held")),
            LockState::Jeopardy => {
                let left = roughly(self.timetable.terminate_at().since(self.clock.now()));
                let fate = match self.timetable.on_lost() {
                    OnLost::Kill | OnLost::Signal => "the command is told to end",
                    OnLost::Warn => "the lock is lost",
                };
                say(&format!(
                    "`{key}`: the lock is not being renewed; unless that changes, {fate} in {left}"
                ));
            }
            // The reason is said at the end.
            _ => {}
        }
    }

    fn do_what_is_due(&mut self) {
        let due = self.timetable.due(self.clock.now());
        if due > self.done {
            let does = match (self.timetable.on_lost(), due) {
                (OnLost::Warn, _) => "the command goes on without it",
                (_, Due::Kill) => "sending SIGKILL to the command",
                _ => "sending SIGTERM to the command",
            };
            say(&format!("`{}`: the lock can't be kept, {does}", self.guard.key()));
            self.done = due;
            if due == Due::Terminate && self.timetable.on_lost() != OnLost::Warn {
                self.command.group().terminate();
                self.strays.terminate();
            }
        }
        if due == Due::Kill {
            self.command.group().kill();
        }
    }

    fn pause(&self) -> Duration {
        let check = (self.guard.ttl() / 10).min(CLOCK_CHECK);
        let now = self.clock.now();
        let at_end = if self.timetable.due(now) == Due::Kill { GROUP_CHECK } else { check };
        self.timetable.until_next(now).map_or(at_end, |next| next.min(check))
    }

    fn pass_on(&self, signal: Signal) {
        let group = self.command.group();
        match signal {
            Signal::CHILD => orphans::reap(&[self.command.pid(), self.shepherd.pid()]),
            Signal::CONT => self.go_on(),
            // These mean a program that knows what to do; others would die of them.
            Signal::USR1 | Signal::USR2 => {
                // It has ended at worst.
                let _ = kill_process(self.command.pid(), signal);
            }
            signal if asks_to_end(signal) => {
                group.signal(signal);
                group.signal(Signal::CONT);
            }
            signal => group.signal(signal),
        }
    }
}

/// Leaves standard input and output to the command alone: whoever is at their other end must notice
/// when the command closes them.
fn let_go_of_stdio() {
    // Without /dev/null they stay open until the end, which harms nobody much.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&nothing);
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
}

/// Resolves when the lock's state is not `from` any more; never once it is lost.
async fn changed(guard: &LockGuard, from: LockState) {
    if matches!(from, LockState::Lost(_)) {
        std::future::pending::<()>().await;
    }
    guard.state_changed(from).await;
}
