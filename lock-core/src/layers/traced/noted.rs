//! What is noted in the span of a call when its answer is there.

use tracing::Span;

use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::outcome::{Release, Renewal, TryLock};

/// Notes the outcome in the present span.
pub(super) fn noted<T>(result: Result<T>, outcome: impl FnOnce(&T) -> &'static str) -> Result<T> {
    match &result {
        Ok(value) => {
            Span::current().record("outcome", outcome(value));
        }
        Err(error) => {
            Span::current().record("outcome", "error");
            log(error);
        }
    }
    result
}

pub(super) fn log(error: &Error) {
    tracing::debug!(error = %error, "the store operation failed");
}

pub(super) fn attempted(outcome: &TryLock) -> &'static str {
    match outcome {
        TryLock::Acquired(lease) => granted(lease),
        TryLock::Busy(_) => "busy",
    }
}

pub(super) fn granted(lease: &Lease) -> &'static str {
    Span::current().record("token", lease.token.get());
    "acquired"
}

pub(super) const fn renewed(renewal: &Renewal) -> &'static str {
    match renewal {
        Renewal::Renewed { .. } => "renewed",
        Renewal::Lost(reason) => reason.as_str(),
    }
}

pub(super) const fn released(release: &Release) -> &'static str {
    match release {
        Release::Released => "released",
        Release::NotHeld(reason) => reason.as_str(),
    }
}
