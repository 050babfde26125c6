//! The spans of a batch of renewals: one around it, and one for each lease inside.

use tracing::Span;

use super::noted::{log, renewed};
use crate::error::Result;
use crate::lease::Lease;
use crate::outcome::Renewal;

/// Begun before the call, so that the spans of a batch that is dropped have no outcome, but are there.
pub(super) struct Batch {
    span: Span,
    leases: Vec<Span>,
}

impl Batch {
    pub(super) fn new(span: Span, leases: &[Lease], of_lease: impl FnMut(&Lease) -> Span) -> Self {
        span.record("count", leases.len());
        let leases = span.in_scope(|| leases.iter().map(of_lease).collect());
        Self { span, leases }
    }

    pub(super) const fn span(&self) -> &Span {
        &self.span
    }

    /// Notes how each lease fared, and the batch: as they all did, or `mixed`.
    pub(super) fn note(self, results: &[Result<Renewal>]) {
        let outcomes = || results.iter().map(|result| result.as_ref().map_or("error", renewed));
        for (lease, outcome) in self.leases.iter().zip(outcomes()) {
            lease.record("outcome", outcome);
        }
        if let Some(first) = outcomes().next() {
            self.span.record("outcome", if outcomes().all(|one| one == first) { first } else { "mixed" });
        }
        // A store in trouble says the same of each.
        let failed =
            self.leases.iter().zip(results).find_map(|(lease, result)| Some((lease, result.as_ref().err()?)));
        if let Some((lease, error)) = failed {
            lease.in_scope(|| log(error));
        }
    }
}
