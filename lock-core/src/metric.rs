//! Which metrics there are.

/// What a metric measures, and under which labels. See [`METRICS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: MetricKind,
    /// The labels that it always has. Each takes few values; a key is never one of them.
    pub labels: &'static [&'static str],
    /// What it says.
    pub meaning: &'static str,
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Many times, in seconds.
    Histogram,
}

impl MetricKind {
    /// The kind as a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Every metric that clients record through the `metrics` facade with the feature `metrics`. The recorder must be installed
/// before the first client is made, or gauges miss what was counted without it. One that is installed later is used from
/// then on; a local one that is put where another was in memory may be taken for that for up to a second, by the same client.
pub const METRICS: &[Metric] = &[
    ACQUIRES, WAIT, WAITING, SELF_WAITS, HELD, HOLD, RENEWALS, JEOPARDIES, LOSSES, PENDING, OPERATIONS,
    OPERATION,
];

pub(crate) const ACQUIRES: Metric = Metric {
    name: "distlock_acquires_total",
    kind: MetricKind::Counter,
    labels: &["backend", "call", "outcome"],
    meaning: "Calls of `lock` and `try-lock` that ended: `acquired`; `busy`, of those that don't wait; `timeout`, of those that do; `cancelled`, when the caller dropped it; `error`",
};
pub(crate) const WAIT: Metric = Metric {
    name: "distlock_wait_seconds",
    kind: MetricKind::Histogram,
    labels: &["backend", "outcome"],
    meaning: "How long those calls took, by the same outcomes",
};
pub(crate) const WAITING: Metric = Metric {
    name: "distlock_waiting_calls",
    kind: MetricKind::Gauge,
    labels: &["backend"],
    meaning: "Calls under way",
};
pub(crate) const SELF_WAITS: Metric = Metric {
    name: "distlock_self_waits_total",
    kind: MetricKind::Counter,
    labels: &["backend"],
    meaning: "Calls that waited for a lock which their own client held for a whole ttl: perhaps a task that waits for itself",
};
pub(crate) const HELD: Metric = Metric {
    name: "distlock_held_locks",
    kind: MetricKind::Gauge,
    labels: &["backend"],
    meaning: "Locks that are held",
};
pub(crate) const HOLD: Metric = Metric {
    name: "distlock_hold_seconds",
    kind: MetricKind::Histogram,
    labels: &["backend", "end"],
    meaning: "How long locks were held, by how that ended: `released`, `lost`, or `detached` when a guard was turned into a lease",
};
pub(crate) const RENEWALS: Metric = Metric {
    name: "distlock_renewals_total",
    kind: MetricKind::Counter,
    labels: &["backend", "outcome"],
    meaning: "Renewals of single locks: `renewed`, or `failed` without an answer that counts; such a one is repeated",
};
pub(crate) const JEOPARDIES: Metric = Metric {
    name: "distlock_jeopardies_total",
    kind: MetricKind::Counter,
    labels: &["backend"],
    meaning: "Locks that the store had not confirmed for half of their ttl",
};
pub(crate) const LOSSES: Metric = Metric {
    name: "distlock_losses_total",
    kind: MetricKind::Counter,
    labels: &["backend", "reason"],
    meaning: "Locks that were lost while held: `expired`, `stolen`, `session-closed`, `unreachable`, `denied`, `max-hold`, `shutdown`",
};
pub(crate) const PENDING: Metric = Metric {
    name: "distlock_pending_releases",
    kind: MetricKind::Gauge,
    labels: &["backend"],
    meaning: "Claims that the background task has yet to take out of the store: of dropped guards, of calls that were cancelled or went unanswered",
};
pub(crate) const OPERATIONS: Metric = Metric {
    name: "distlock_operations_total",
    kind: MetricKind::Counter,
    labels: &["backend", "operation", "outcome"],
    meaning: "Operations of the store, such as `try-lock`, `renew` and `unlock`, by what they answered; `error` for those that failed",
};
pub(crate) const OPERATION: Metric = Metric {
    name: "distlock_operation_seconds",
    kind: MetricKind::Histogram,
    labels: &["backend", "operation"],
    meaning: "How long they took; renewals that go together count once",
};

/// Tells the installed recorder what each metric means, so that exporters can show it.
#[cfg(feature = "metrics")]
pub fn describe_metrics() {
    for &Metric { name, kind, meaning, .. } in METRICS {
        match kind {
            MetricKind::Counter => metrics::describe_counter!(name, meaning),
            MetricKind::Gauge => metrics::describe_gauge!(name, meaning),
            MetricKind::Histogram => metrics::describe_histogram!(name, metrics::Unit::Seconds, meaning),
        }
    }
}
