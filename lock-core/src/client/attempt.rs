//! The guard around every attempt: whatever happens to the caller, the claim does not stay behind.

use std::time::Duration;

use crate::claim::Claim;
use crate::client::{ClientInner, Turn};
use crate::releaser::Sweep;

/// Withdraws its claim in the background when dropped, unless it was disarmed.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    client: &'a ClientInner,
    withdrawal: Option<(Claim, Duration, Duration)>,
    /// Passed on when the claim is known to be gone.
    pub(super) turn: Option<Turn>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        client: &'a ClientInner,
        claim: Claim,
        ttl: Duration,
        op_timeout: Duration,
        turn: Option<Turn>,
    ) -> Self {
        client.attempt_begins();
        Self { client, withdrawal: Some((claim, ttl, op_timeout)), turn }
    }

    /// The claim is accounted for: held by a guard, or certainly not in the store.
    pub(super) fn disarm(mut self) -> Option<Turn> {
        self.withdrawal = None;
        self.turn.take()
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some((claim, ttl, op_timeout)) = self.withdrawal.take() {
            self.client.releaser.push(Sweep::withdrawal(claim, ttl, op_timeout, self.turn.take()));
        }
        self.client.attempt_ends();
    }
}
