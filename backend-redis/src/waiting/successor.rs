//! Who follows the holder of a lock within one backend.

use std::time::Duration;

use distlock_core::{FencingToken, Instant, Lease, LockRequest};

use super::hub::Hub;
use super::message::Addressee;

/// One of this backend who waits in the queue and may be next. Whoever gives the lock back gives it to
/// him in the same step, if the store agrees. Dropped without an answer, it looks for itself.
#[derive(Debug)]
pub(crate) struct Successor<'a> {
    hub: &'a Hub,
    request: LockRequest,
    ttl: Duration,
    is_answered: bool,
}

impl<'a> Successor<'a> {
    pub(super) const fn new(hub: &'a Hub, request: LockRequest, ttl: Duration) -> Self {
        Self { hub, request, ttl, is_answered: false }
    }

    /// What it asks for.
    pub(crate) const fn request(&self) -> &LockRequest {
        &self.request
    }

    /// How long a grant lasts.
    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// It has the lock, by a request that was sent at `sent`.
    pub(crate) fn granted(mut self, token: FencingToken, sent: Instant) {
        self.is_answered = true;
        self.hub.granted(Lease::granted(&self.request, token, self.ttl, sent));
    }

    /// It was not its turn; it goes on waiting.
    pub(crate) fn passed_over(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Successor<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.hub.released(Addressee::One(self.request.claim.clone()));
        }
    }
}
