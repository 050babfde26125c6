//! A lock on its way from one holder of a client to the next.

use std::sync::Arc;
use std::time::Duration;

use super::turns::Turn;
use crate::lease::Lease;
use crate::releaser::{Releaser, Sweep};

/// A grant and its turn, until the waiter takes them. If the waiter leaves instead, the grant is
/// withdrawn, and then the turn goes on.
#[derive(Debug)]
pub(crate) struct Handed {
    releaser: Arc<Releaser>,
    op_timeout: Duration,
    lease: Lease,
    turn: Option<Turn>,
    accepted: bool,
}

impl Handed {
    pub(crate) const fn new(releaser: Arc<Releaser>, op_timeout: Duration, lease: Lease, turn: Turn) -> Self {
        Self { releaser, op_timeout, lease, turn: Some(turn), accepted: false }
    }

    /// Takes the grant; from here on the waiter answers for it.
    pub(crate) fn accept(mut self) -> (Lease, Option<Turn>) {
        self.accepted = true;
        (self.lease.clone(), self.turn.take())
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if !self.accepted {
            let (claim, ttl) = (self.lease.claim.clone(), self.lease.ttl);
            self.releaser.push(Sweep::withdrawal(claim, ttl, self.op_timeout, self.turn.take()));
        }
    }
}
