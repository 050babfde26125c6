//! The store's leases, which keep records alive.

use std::time::Duration;

use distlock_core::{Claim, Error, ErrorKind, Instant, Result};
use etcd_client::{Client, LeaseGrantOptions};

use crate::error::{Failure, Verdict};
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

/// The lease of a claim. It follows from the claim, so that one whose grant was never answered can be
/// found again, by whoever knows the claim. The owner's random bits keep it from any other claim's.
pub(crate) fn lease_of(claim: &Claim) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *claim.owner.as_bytes();
    let owner = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    // Zero would let the server choose, and negative numbers are not taken.
    ((owner ^ fnv_1a(claim.key.as_bytes())).cast_signed() & i64::MAX).max(1)
}

/// The hash FNV-1a of 64 bits (RFC 9923).
fn fnv_1a(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// A ttl as the store counts it.
pub(crate) fn whole_seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Gets the lease `id` for at least `ttl` from now on, whether or not it is there already.
pub(crate) async fn obtain(store: &Store, id: i64, ttl: Duration) -> Result<StoreLease, Failure> {
    /// It may end between two answers, but hardly over and over.
    const TRIES: usize = 3;
    let mut last = Failure::ended();
    for _ in 0..TRIES {
        match grant(store, id, ttl).await {
            Err(failure) if failure.verdict == Verdict::LeaseExists => {}
            outcome => return outcome,
        }
        match store.keepalives.keep_one(&store.link, &store.clock, id).await {
            Ok(Some(lease)) => return Ok(lease),
            Ok(None) => {}
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

async fn grant(store: &Store, id: i64, ttl: Duration) -> Result<StoreLease, Failure> {
    let seconds = whole_seconds(ttl);
    let alive_from = store.clock.now();
    let grant = |client: &Client| {
        let mut leases = client.lease_client();
        async move { leases.grant(seconds, Some(LeaseGrantOptions::new().with_id(id))).await }
    };
    let granted = store.link.call(Repeat::Never, grant).await?;
    Ok(StoreLease { id, ttl: seconds_of(granted.ttl()), alive_from })
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
    use distlock_core::{LockKey, OwnerId};

    use super::*;

    #[test]
    fn leases_follow_from_their_claims() {
        let key = |name: &str| LockKey::new(name).unwrap();
        let claim = Claim::mint(key("a"));
        assert_eq!(lease_of(&claim), lease_of(&claim.clone()));
        assert_ne!(lease_of(&claim), lease_of(&Claim::new(key("b"), claim.owner)));
        for byte in [0, 0xff] {
            assert!(lease_of(&Claim::new(key("a"), OwnerId::from_bytes(&[byte; 16]).unwrap())) > 0);
        }
    }

    #[test]
    fn the_hash_is_the_published_one() {
        for (text, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fnv_1a(text.as_bytes()), hash);
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (ttl, seconds) in [(1, 1), (1000, 1), (1001, 2), (2999, 3)] {
            assert_eq!(whole_seconds(Duration::from_millis(ttl)), seconds);
        }
    }
}
