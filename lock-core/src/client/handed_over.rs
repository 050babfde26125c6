//! A lock that goes from one contender of a client straight to the next.

use std::sync::Arc;
use std::time::Duration;

use super::turns::Turn;
use crate::clock::Instant;
use crate::lease::Lease;
use crate::owner::OwnerId;
use crate::releaser::{Releaser, Sweep};

/// A lock on its way from one contender of this client to the next. If it arrives nowhere, it is
/// released and the turn goes on.
#[derive(Debug)]
pub(crate) struct HandedOver {
    grant: Option<(Lease, Turn)>,
    op_timeout: Duration,
    releaser: Arc<Releaser>,
}

impl HandedOver {
    /// Passes `turn` on together with the lock.
    pub(crate) fn pass(
        mut turn: Turn,
        lease: Lease,
        op_timeout: Duration,
        releaser: &Arc<Releaser>,
        now: Instant,
    ) {
        let (turns, key) = turn.hand_over(now);
        let granted = Self { grant: Some((lease, turn)), op_timeout, releaser: Arc::clone(releaser) };
        if let Some(key) = key {
            // Whoever left meanwhile gets nothing: what comes back is released.
            drop(turns.call(&key, granted));
        }
    }

    /// The lock, in the hands of its new holder.
    pub(crate) fn accept(mut self) -> Option<(Lease, Turn)> {
        self.grant.take()
    }

    pub(super) fn owner(&self) -> Option<OwnerId> {
        self.grant.as_ref().map(|(lease, _)| lease.claim.owner)
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        if let Some((lease, turn)) = self.grant.take() {
            let ttl = lease.ttl;
            self.releaser.push(Sweep::of_grant(lease, ttl, self.op_timeout, Some(turn)));
        }
    }
}
