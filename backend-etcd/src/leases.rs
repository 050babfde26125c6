//! The store's leases, which keep records alive.

use std::time::Duration;

use distlock_core::{Error, ErrorKind, Instant, Result};
use etcd_client::Client;

use crate::error::Failure;
use crate::link::Repeat;
use crate::store::Store;

/// A lease that the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreLease {
    pub(crate) id: i64,
    /// What the store gives it.
    pub(crate) ttl: Duration,
    /// Read before the last acknowledged request left that (re)started it.
    pub(crate) alive_from: Instant,
    /// The term of the leader that granted it; 0 if it was not this client that asked.
    pub(crate) granted_in: u64,
    /// The term of the leader that acknowledged that request.
    pub(crate) kept_in: u64,
}

/// What the store says of a lease that it prolonged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) ttl: Duration,
    /// Read before the request left.
    pub(crate) alive_from: Instant,
    /// The leader's term.
    pub(crate) term: u64,
}

impl StoreLease {
    /// One that is read from a record. It has to be prolonged before anything is known of its time.
    pub(crate) const fn found(id: i64) -> Self {
        Self { id, ttl: Duration::ZERO, alive_from: Instant::ORIGIN, granted_in: 0, kept_in: 0 }
    }

    /// The same, prolonged.
    pub(crate) const fn prolonged(self, kept: Kept) -> Self {
        let Kept { ttl, alive_from, term } = kept;
        Self { ttl, alive_from, kept_in: term, ..self }
    }

    /// Whether a leader before the one of now may know it, and revoke it should that one have stood still and go on:
    /// etcd-io/etcd#15247.
    pub(crate) const fn is_of_a_former_leader(&self) -> bool {
        self.granted_in < self.kept_in
    }

    /// The same, unless another leader's word of this `term` is newer than what prolonged it: then as it was `before`. A leader
    /// that stood still may prolong leases for a moment before it knows that it has a successor.
    pub(crate) const fn unless_outdated(self, before: Self, term: u64) -> Self {
        if self.kept_in < term { before } else { self }
    }
}

/// A ttl as the store counts it.
pub(crate) fn whole_seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Gets a new lease for at least `ttl` from now on.
pub(crate) async fn obtain(store: &Store, ttl: Duration) -> Result<StoreLease, Failure> {
    let seconds = whole_seconds(ttl);
    let alive_from = store.clock.now();
    let grant = |client: &Client| {
        let mut leases = client.lease_client();
        async move { leases.grant(seconds, None).await }
    };
    // One that nobody hears of has no record, and ends by itself.
    let granted = store.link.call(Repeat::Freely, grant).await?;
    let term = store.link.heard_of(granted.header());
    Ok(StoreLease {
        id: granted.id(),
        ttl: seconds_of(granted.ttl()),
        alive_from,
        granted_in: term,
        kept_in: term,
    })
}

/// Ends a lease and deletes what belongs to it; false if there is none.
pub(crate) async fn revoke(store: &Store, id: i64) -> Result<bool, Failure> {
    let revoke = |client: &Client| {
        let mut leases = client.lease_client();
        async move { leases.revoke(id).await }
    };
    match store.link.call(Repeat::Never, revoke).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_no_lease() => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Ends the leases that were kept for the next locks, as far as that goes quickly; the rest ends by itself.
pub(crate) async fn end_spares(store: &Store) {
    /// Longer than a healthy cluster takes.
    const QUICKLY: Duration = Duration::from_millis(500);
    let ending = store.spares.clear().into_iter().map(|id| revoke(store, id));
    tokio::select! {
        biased;
        _ = futures_util::future::join_all(ending) => {}
        // What is under way may still be carried out.
        () = tokio::time::sleep(QUICKLY) => {}
    }
}

/// For how long at most the store keeps a lease if nobody renews it; `None` if it has none. The server rounds
/// what is left down to whole seconds.
pub(crate) async fn remaining(store: &Store, id: i64) -> Result<Option<Duration>, Failure> {
    let ask = |client: &Client| {
        let mut leases = client.lease_client();
        async move { leases.time_to_live(id, None).await }
    };
    match store.link.call(Repeat::Freely, ask).await {
        Ok(answer) if answer.ttl() >= 0 => Ok(Some(seconds_of((answer.ttl() + 1).min(answer.granted_ttl())))),
        Ok(_) => Ok(None),
        Err(failure) if failure.is_no_lease() => Ok(None),
        Err(failure) => Err(failure),
    }
}

pub(crate) fn seconds_of(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

/// The error for a claim whose lease does not stay.
pub(crate) fn ended_over_and_over() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the attempt's lease or record was gone each time it was looked at; see whether somebody deletes records or revokes leases",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        for (ttl, seconds) in [(1, 1), (1000, 1), (1001, 2), (2999, 3)] {
            assert_eq!(whole_seconds(Duration::from_millis(ttl)), seconds);
        }
    }
}
