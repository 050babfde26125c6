//! The command stopped and continued from the terminal, and this process with it.

use std::time::Duration;

use rustix::process::{Signal, kill_current_process_group};

use super::super::on_lost::OnLost;
use super::Supervision;
use crate::durations::roughly;
use crate::message::say;

/// How long a stop of our own group may take to take effect.
const STOP_TAKES: Duration = Duration::from_millis(250);

impl Supervision<'_> {
    /// The terminal stopped the command: the shell wants its prompt, so this process stops too.
    /// A stopped process does not renew, so the lock is kept for one ttl from now at most, and the
    /// shepherd ends the command when that is over.
    pub(super) async fn stop_as_well(&mut self, by: i32) {
        let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU].iter().any(|s| s.as_raw() == by);
        if !by_terminal || self.terminal.is_none() {
            return;
        }
        // As much time as can be had. If it fails, there is less of it.
        let _ = self.guard.renew().await;
        self.look_at_lease();
        let left = roughly(self.guard.valid_until().since(self.clock.now()));
        let fate = match self.timetable.on_lost() {
            OnLost::Kill => "it is killed and the lock given up",
            OnLost::Signal | OnLost::Warn => "the lock is given up",
        };
        say(&format!("`{}`: stopped; unless it goes on within {left}, {fate}", self.guard.key()));
        let _ = kill_current_process_group(Signal::TSTP);
        if self.was_stopped().await {
            return self.go_on();
        }
        // Nobody could have woken us, so the system did not stop us, and must not have stopped the command.
        if by != Signal::TSTP.as_raw() {
            self.command.group().signal(Signal::HUP);
        }
        self.go_on();
    }

    /// Whether we were stopped just now: then we are also told to go on, or at least time is missing.
    async fn was_stopped(&mut self) -> bool {
        let asked = self.clock.now();
        loop {
            let left = asked.plus(STOP_TAKES).since(self.clock.now());
            tokio::select! {
                biased;
                signal = self.signals.next() => {
                    if signal == Signal::CONT {
                        return true;
                    }
                    self.pass_on(signal);
                }
                () = tokio::time::sleep(left) => return self.clock.now().since(asked) > STOP_TAKES * 2,
            }
        }
    }

    pub(super) fn go_on(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.hand_to(self.command.group());
        }
        self.command.group().signal(Signal::CONT);
    }
}
