//! One call for a lock, for the metrics.

use std::time::Duration;

use crate::clock::Instant;
use crate::error::Error;
use crate::guard::LockGuard;
use crate::meter::Meter;
use crate::observer::Observer;
use crate::options::WaitPolicy;

/// A call under way. One that is dropped before it ended was cancelled.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    observer: &'a Observer,
    call: &'static str,
    since: Option<Instant>,
}

impl<'a> Asked<'a> {
    pub(super) fn begin(observer: &'a Observer, call: &'static str) -> Self {
        let since = Meter::IS_ON.then(|| observer.now());
        if since.is_some() {
            observer.meter().call_begins();
        }
        Self { observer, call, since }
    }

    /// The call's answer.
    pub(super) fn end(mut self, outcome: &'static str) {
        self.note(outcome);
    }

    fn note(&mut self, outcome: &'static str) {
        if let Some(since) = self.since.take() {
            let took = self.observer.try_now().map_or(Duration::ZERO, |now| now.since(since));
            self.observer.meter().call_ends(self.call, outcome, took);
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.note("cancelled");
    }
}

/// What became of a call that waits as `policy` says.
pub(super) fn outcome(answer: &Result<LockGuard, Error>, policy: WaitPolicy) -> &'static str {
    match answer {
        Ok(_) => "acquired",
        Err(error) if !error.is_wait_timeout() => "error",
        Err(_) if policy == WaitPolicy::No => "busy",
        Err(_) => "timeout",
    }
}

/// What became of a call that does not wait.
pub(super) const fn tried(answer: &Result<Option<LockGuard>, Error>) -> &'static str {
    match answer {
        Ok(Some(_)) => "acquired",
        Ok(None) => "busy",
        Err(_) => "error",
    }
}
