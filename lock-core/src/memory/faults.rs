//! Scripted trouble, for tests of what a program does when its store misbehaves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Effect, Error, ErrorKind, Operation, Result};

/// Scripted trouble of a [`MemoryBackend`](crate::MemoryBackend). Each script applies to the next
/// calls of its operation, in the order in which the scripts were given.
#[derive(Debug, Default)]
pub struct Faults {
    /// Spares the ordinary call the lock.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    scripts: VecDeque<(Operation, Fault)>,
    silent: bool,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    DropReply,
    Fail(ErrorKind),
    Delay(Duration),
    DelayReply(Duration),
    Duplicate,
    Hang,
}

/// What a call has to do besides its work.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) twice: bool,
    /// Whether time passed since the call.
    pub(super) delayed: bool,
    drop_reply: bool,
    late: Duration,
}

impl Faults {
    /// The next `operation` is carried out, but fails as if its reply were lost.
    pub fn drop_reply(&self, operation: Operation) {
        self.script(operation, Fault::DropReply);
    }

    /// The next `operation` fails with this kind and is not carried out.
    pub fn fail(&self, operation: Operation, kind: ErrorKind) {
        self.script(operation, Fault::Fail(kind));
    }

    /// The next `operation` is carried out `by` later.
    pub fn delay(&self, operation: Operation, by: Duration) {
        self.script(operation, Fault::Delay(by));
    }

    /// The next `operation` is carried out at once, but answered `by` later.
    pub fn delay_reply(&self, operation: Operation, by: Duration) {
        self.script(operation, Fault::DelayReply(by));
    }

    /// The next `operation` is carried out twice.
    pub fn duplicate(&self, operation: Operation) {
        self.script(operation, Fault::Duplicate);
    }

    /// The next `operation` never answers and is not carried out.
    pub fn hang(&self, operation: Operation) {
        self.script(operation, Fault::Hang);
    }

    /// While silent, no operation answers or is carried out.
    pub fn silence(&self, silent: bool) {
        let mut state = self.state();
        state.silent = silent;
        self.any.store(silent || !state.scripts.is_empty(), Ordering::Release);
    }

    /// How many scripts are still to come.
    #[must_use]
    pub fn scripts(&self) -> usize {
        self.state().scripts.len()
    }

    /// Forgets every script.
    pub fn clear(&self) {
        let mut state = self.state();
        *state = State::default();
        self.any.store(false, Ordering::Release);
    }

    pub(super) async fn before(&self, operation: Operation) -> Result<Plan> {
        let mut plan = Plan::default();
        if !self.any.load(Ordering::Acquire) {
            return Ok(plan);
        }
        match self.next(operation) {
            None => {}
            Some(Fault::DropReply) => plan.drop_reply = true,
            Some(Fault::Fail(kind)) => {
                return Err(Error::new(kind, "a scripted fault").with_effect(Effect::None));
            }
            Some(Fault::Delay(by)) => {
                tokio::time::sleep(by).await;
                plan.delayed = true;
            }
            Some(Fault::DelayReply(by)) => plan.late = by,
            Some(Fault::Duplicate) => plan.twice = true,
            Some(Fault::Hang) => std::future::pending().await,
        }
        Ok(plan)
    }

    fn next(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.state();
        if state.silent {
            return Some(Fault::Hang);
        }
        let at = state.scripts.iter().position(|(of, _)| *of == operation)?;
        let (_, fault) = state.scripts.remove(at)?;
        self.any.store(!state.scripts.is_empty(), Ordering::Release);
        Some(fault)
    }

    fn script(&self, operation: Operation, fault: Fault) {
        self.state().scripts.push_back((operation, fault));
        self.any.store(true, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    /// The result, when the script lets it through, unless that loses it.
    pub(super) async fn reply<T>(&self, result: T) -> Result<T> {
        if !self.late.is_zero() {
            tokio::time::sleep(self.late).await;
        }
        if self.drop_reply {
            return Err(Error::new(ErrorKind::Unavailable, "a scripted fault lost the reply")
                .with_effect(Effect::Unknown));
        }
        Ok(result)
    }
}
