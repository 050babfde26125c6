//! Records a client's metrics, or nothing where the feature is off.

use std::time::Duration;

use crate::metric::{
    ACQUIRES, HELD, HOLD, JEOPARDIES, LOSSES, Metric, PENDING, RENEWALS, SELF_WAITS, WAIT, WAITING,
};
use crate::outcome::LostReason;

const RENEWED: &str = "renewed";
const FAILED: &str = "failed";

type Labels<'a> = &'a [(&'static str, &'static str)];

/// Records under the name of one backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    backend: &'static str,
}

impl Meter {
    /// Whether anything is recorded. Without, nobody needs to read a clock for it.
    pub(crate) const IS_ON: bool = cfg!(feature = "metrics");

    pub(crate) fn new(backend: &'static str) -> Self {
        let backend_label = ("backend", backend);
        // There from the start: a counter that first appears with 1 shows no growth to those who watch for it.
        for reason in LostReason::ALL {
            count(&LOSSES, &[backend_label, ("reason", reason.as_str())], 0);
        }
        for outcome in [RENEWED, FAILED] {
            count(&RENEWALS, &[backend_label, ("outcome", outcome)], 0);
        }
        count(&JEOPARDIES, &[backend_label], 0);
        count(&SELF_WAITS, &[backend_label], 0);
        Self { backend }
    }

    pub(crate) fn call_begins(self) {
        add(&WAITING, &[("backend", self.backend)], 1.0);
    }

    pub(crate) fn call_ends(self, call: &'static str, outcome: &'static str, took: Duration) {
        let backend = ("backend", self.backend);
        add(&WAITING, &[backend], -1.0);
        count(&ACQUIRES, &[backend, ("call", call), ("outcome", outcome)], 1);
        time(&WAIT, &[backend, ("outcome", outcome)], took);
    }

    pub(crate) fn hold_begins(self) {
        add(&HELD, &[("backend", self.backend)], 1.0);
    }

    pub(crate) fn hold_ends(self, end: &'static str, held: Duration) {
        let backend = ("backend", self.backend);
        add(&HELD, &[backend], -1.0);
        time(&HOLD, &[backend, ("end", end)], held);
    }

    pub(crate) fn renewed(self) {
        count(&RENEWALS, &[("backend", self.backend), ("outcome", RENEWED)], 1);
    }

    pub(crate) fn renewal_failed(self) {
        count(&RENEWALS, &[("backend", self.backend), ("outcome", FAILED)], 1);
    }

    pub(crate) fn jeopardy(self) {
        count(&JEOPARDIES, &[("backend", self.backend)], 1);
    }

    pub(crate) fn loss(self, reason: LostReason) {
        count(&LOSSES, &[("backend", self.backend), ("reason", reason.as_str())], 1);
    }

    pub(crate) fn self_wait(self) {
        count(&SELF_WAITS, &[("backend", self.backend)], 1);
    }

    /// Claims came to the releaser's queue, or left it.
    pub(crate) fn pending(self, change: f64) {
        add(&PENDING, &[("backend", self.backend)], change);
    }
}

#[cfg(feature = "metrics")]
fn count(metric: &Metric, labels: Labels<'_>, times: u64) {
    metrics::counter!(metric.name, labels).increment(times);
}

#[cfg(feature = "metrics")]
fn add(metric: &Metric, labels: Labels<'_>, change: f64) {
    metrics::gauge!(metric.name, labels).increment(change);
}

#[cfg(feature = "metrics")]
fn time(metric: &Metric, labels: Labels<'_>, took: Duration) {
    metrics::histogram!(metric.name, labels).record(took.as_secs_f64());
}

#[cfg(not(feature = "metrics"))]
const fn count(_: &Metric, _: Labels<'_>, _: u64) {}

#[cfg(not(feature = "metrics"))]
const fn add(_: &Metric, _: Labels<'_>, _: f64) {}

#[cfg(not(feature = "metrics"))]
const fn time(_: &Metric, _: Labels<'_>, _: Duration) {}
