//! Waiting for replicas.

mod rounds;

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Lease, Result};

use crate::connection::within;
use crate::release;
use crate::store::Store;
pub(crate) use rounds::Rounds;

/// What became of a grant on its way to the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// So many have it.
    On(i64),
    /// The server that granted it has it no more, or is another one now.
    Gone,
}

/// Waits until a new grant has arrived on as many replicas as are asked for, and gives it back if it
/// does not get there within ttl/12, 1 s at most.
///
/// `WAIT` counts replicas that have what *its own connection* wrote last, and on a connection that
/// wrote nothing it answers at once. Behind the grant on the connection that all share it would hold up
/// everybody. So the lease is renewed on a connection beside that, which is a write that
/// comes after the grant in the server's order, and which shows that this server is the one that granted.
pub(crate) async fn confirm(store: &Arc<Store>, lease: &Lease) -> Result<()> {
    if store.wait_replicas == 0 {
        return Ok(());
    }
    let limit = (lease.ttl / 12).clamp(Duration::from_millis(1), Duration::from_secs(1));
    let answer = store.rounds.join(store, lease, limit);
    let wanted = store.wait_replicas;
    let shortfall = match within(limit + limit / 4, answer).await {
        Some(Ok(Arrival::On(number))) if number >= i64::from(wanted) => return Ok(()),
        Some(Ok(Arrival::On(number))) => {
            late(&format!("on {number} replicas, but `wait_replicas` wants {wanted}"))
        }
        Some(Ok(Arrival::Gone)) => Error::new(
            ErrorKind::NotReplicated,
            "the lock was lost while its grant was on its way to the replicas; another server may have taken over",
        ),
        Some(Err(error)) => error,
        None => late(&format!("too late on {wanted} replicas, or never: not within {limit:?}")),
    };
    let given_back = release::unlock(store, &lease.claim, None).await;
    Err(shortfall.with_effect(if given_back.is_ok() { Effect::None } else { Effect::Unknown }))
}

/// The error for a grant that is on too few replicas.
fn late(how_far: &str) -> Error {
    Error::new(
        ErrorKind::NotReplicated,
        format!(
            "the grant arrived {how_far}; it is given back (see why replicas are down or late, or ask for fewer)"
        ),
    )
}
