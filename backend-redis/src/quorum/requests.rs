//! What is asked of every server, written once for all of them.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Claim, FencingToken, Lease, LockRequest};

use crate::acquire::micros;
use crate::names::Names;
use crate::prepared::Prepared;
use crate::script;

/// An attempt that the servers vote on.
#[derive(Debug)]
pub(super) struct Paper {
    pub(super) claim: Claim,
    number: u64,
    owner: String,
    ttl: Vec<u8>,
    metadata: String,
    hold_off: Vec<u8>,
}

impl Paper {
    pub(super) fn new(request: &LockRequest, ttl: Duration, number: u64, hold_off: Duration) -> Self {
        Self {
            claim: request.claim.clone(),
            number,
            owner: request.claim.owner.to_string(),
            ttl: micros(ttl),
            metadata: request.metadata.encode().to_owned(),
            hold_off: micros(hold_off),
        }
    }

    /// Asks for the lock.
    pub(super) fn vote(&self, names: &Names) -> Arc<Prepared> {
        let keys = [names.record(&self.claim.key), names.birth()];
        let number = self.number.to_string();
        let arguments = [
            self.owner.as_bytes(),
            &self.ttl,
            self.metadata.as_bytes(),
            b"0",
            number.as_bytes(),
            &self.hold_off,
        ];
        Arc::new(Prepared::new(&script::VOTE, &keys, &arguments))
    }

    /// Has the token taken over, where the claim holds the lock, and nobody had it with that token or a higher one before.
    pub(super) fn confirm(&self, names: &Names, token: u64) -> Arc<Prepared> {
        let token = token.to_string();
        let arguments = [self.owner.as_bytes(), token.as_bytes()];
        Arc::new(Prepared::new(&script::CONFIRM, &[names.record(&self.claim.key)], &arguments))
    }

    /// Takes the attempt back, unless the claim has made another one since.
    pub(super) fn withdraw(&self, names: &Names) -> Arc<Prepared> {
        let number = self.number.to_string();
        let arguments = [
            self.owner.as_bytes(),
            names.channel(),
            self.claim.key.as_bytes(),
            b"",
            b"",
            b"",
            b"",
            number.as_bytes(),
        ];
        Arc::new(Prepared::new(&script::WITHDRAW, &[names.record(&self.claim.key)], &arguments))
    }

    /// Passes a lease on to the claim, with this token.
    pub(super) fn pass(&self, names: &Names, lease: &Lease, token: FencingToken) -> Arc<Prepared> {
        let (owner, old) = (lease.claim.owner.to_string(), lease.token.to_string());
        let (token, number) = (token.to_string(), self.number.to_string());
        let arguments = [
            owner.as_bytes(),
            old.as_bytes(),
            self.owner.as_bytes(),
            token.as_bytes(),
            &self.ttl,
            self.metadata.as_bytes(),
            number.as_bytes(),
        ];
        Arc::new(Prepared::new(&script::PASS, &[names.record(&self.claim.key)], &arguments))
    }
}

/// Frees the lock where the claim holds it.
pub(super) fn release(names: &Names, claim: &Claim) -> Arc<Prepared> {
    let owner = claim.owner.to_string();
    let arguments = [owner.as_bytes(), names.channel(), claim.key.as_bytes(), b""];
    Arc::new(Prepared::new(&script::RELEASE, &[names.record(&claim.key)], &arguments))
}
