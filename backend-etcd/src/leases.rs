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
    Ok(StoreLease { id: granted.id(), ttl: seconds_of(granted.ttl()), alive_from })
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
