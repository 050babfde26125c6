//! Records a client's metrics, or nothing where the feature is off.

#[cfg(feature = "metrics")]
pub(crate) use recording::Meter;
#[cfg(not(feature = "metrics"))]
pub(crate) use silent::Meter;

#[cfg(feature = "metrics")]
mod recording {
    use std::time::Duration;

    use metrics::{Counter, Gauge, Histogram};

    use crate::metric::{
        ACQUIRES, HELD, HOLD, JEOPARDIES, LOSSES, PENDING, RENEWALS, SELF_WAITS, WAIT, WAITING,
    };
    use crate::outcome::LostReason;
    use crate::series::Family;

    const RENEWED: &str = "renewed";
    const FAILED: &str = "failed";

    /// Records under the name of one backend.
    #[derive(Debug)]
    pub(crate) struct Meter {
        backend: &'static str,
        acquires: Family<Counter, 7>,
        wait: Family<Histogram, 5>,
        waiting: Family<Gauge, 1>,
        self_waits: Family<Counter, 1>,
        held: Family<Gauge, 1>,
        hold: Family<Histogram, 3>,
        renewals: Family<Counter, 2>,
        jeopardies: Family<Counter, 1>,
        losses: Family<Counter, { LostReason::ALL.len() }>,
        pending: Family<Gauge, 1>,
    }

    impl Meter {
        /// Whether anything is recorded. Without, nobody needs to read a clock for it.
        pub(crate) const IS_ON: bool = true;

        pub(crate) fn new(backend: &'static str) -> Self {
            let meter = Self {
                backend,
                acquires: Family::new(&ACQUIRES),
                wait: Family::new(&WAIT),
                waiting: Family::new(&WAITING),
                self_waits: Family::new(&SELF_WAITS),
                held: Family::new(&HELD),
                hold: Family::new(&HOLD),
                renewals: Family::new(&RENEWALS),
                jeopardies: Family::new(&JEOPARDIES),
                losses: Family::new(&LOSSES),
                pending: Family::new(&PENDING),
            };
            // There from the start: a counter that first appears with 1 shows no growth to those who watch for it.
            for reason in LostReason::ALL {
                meter.losses.count(&[backend, reason.as_str()], 0);
            }
            for outcome in [RENEWED, FAILED] {
                meter.renewals.count(&[backend, outcome], 0);
            }
            meter.jeopardies.count(&[backend], 0);
            meter.self_waits.count(&[backend], 0);
            meter
        }

        pub(crate) fn call_begins(&self) {
            self.waiting.add(&[self.backend], 1.0);
        }

        pub(crate) fn call_ends(&self, call: &'static str, outcome: &'static str, took: Duration) {
            self.waiting.add(&[self.backend], -1.0);
            self.acquires.count(&[self.backend, call, outcome], 1);
            self.wait.time(&[self.backend, outcome], took);
        }

        pub(crate) fn hold_begins(&self) {
            self.held.add(&[self.backend], 1.0);
        }

        pub(crate) fn hold_ends(&self, end: &'static str, held: Duration) {
            self.held.add(&[self.backend], -1.0);
            self.hold.time(&[self.backend, end], held);
        }

        pub(crate) fn renewed(&self) {
            self.renewals.count(&[self.backend, RENEWED], 1);
        }

        pub(crate) fn renewal_failed(&self) {
            self.renewals.count(&[self.backend, FAILED], 1);
        }

        pub(crate) fn jeopardy(&self) {
            self.jeopardies.count(&[self.backend], 1);
        }

        pub(crate) fn loss(&self, reason: LostReason) {
            self.losses.count(&[self.backend, reason.as_str()], 1);
        }

        pub(crate) fn self_wait(&self) {
            self.self_waits.count(&[self.backend], 1);
        }

        /// Claims came to the releaser's queue, or left it.
        pub(crate) fn pending(&self, change: f64) {
            self.pending.add(&[self.backend], change);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod silent {
    use std::time::Duration;

    use crate::outcome::LostReason;

    /// Stands for the one that records.
    #[derive(Debug)]
    pub(crate) struct Meter;

    #[expect(clippy::unused_self, reason = "as the one that records has them")]
    impl Meter {
        pub(crate) const IS_ON: bool = false;

        pub(crate) const fn new(_: &'static str) -> Self {
            Self
        }

        pub(crate) const fn call_begins(&self) {}
        pub(crate) const fn call_ends(&self, _: &'static str, _: &'static str, _: Duration) {}
        pub(crate) const fn hold_begins(&self) {}
        pub(crate) const fn hold_ends(&self, _: &'static str, _: Duration) {}
        pub(crate) const fn renewed(&self) {}
        pub(crate) const fn renewal_failed(&self) {}
        pub(crate) const fn jeopardy(&self) {}
        pub(crate) const fn loss(&self, _: LostReason) {}
        pub(crate) const fn self_wait(&self) {}
        pub(crate) const fn pending(&self, _: f64) {}
    }
}
