//! Waiting for replicas.

use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Lease, Result};
use redis::{Pipeline, Value};

use crate::acquire::micros;
use crate::error::{classify, unreadable};
use crate::release;
use crate::reply::parts;
use crate::script::{self, By};
use crate::store::Store;

/// Waits until a new grant has arrived on as many replicas as are asked for, and gives it back if it
/// does not get there in time.
///
/// `WAIT` counts replicas that have what *its own connection* wrote last, and on a connection that
/// wrote nothing it answers at once. Behind the grant on the connection that all share it would hold up
/// everybody. So the lease is renewed on a connection beside that, which is a write that
/// comes after the grant in the server's order, and which shows that this server is the one that granted.
pub(crate) async fn confirm(store: &Store, lease: &Lease) -> Result<()> {
    if store.wait_replicas == 0 {
        return Ok(());
    }
    let shortfall = match replicas(store, lease).await {
        Ok(Some(number)) if number >= i64::from(store.wait_replicas) => return Ok(()),
        Ok(Some(number)) => Error::new(
            ErrorKind::NotReplicated,
            format!(
                "the grant arrived on {number} replicas, but `wait_replicas` wants {}; it is given back (see why replicas are down or late, or ask for fewer)",
                store.wait_replicas
            ),
        ),
        Ok(None) => Error::new(
            ErrorKind::NotReplicated,
            "the lock was lost while its grant was on its way to the replicas; another server may have taken over",
        ),
        Err(error) => error,
    };
    let given_back = release::unlock(store, &lease.claim).await;
    Err(shortfall.with_effect(if given_back.is_ok() { Effect::None } else { Effect::Unknown }))
}

/// How many replicas have the grant; none if it is gone.
async fn replicas(store: &Store, lease: &Lease) -> Result<Option<i64>> {
    let record = store.names.record(&lease.claim.key);
    let (owner, token) = (lease.claim.owner.to_string(), lease.token.to_string());
    let arguments = [&micros(lease.ttl), owner.as_bytes(), token.as_bytes()];
    let by_hash = script::RENEW.invoke(By::Hash, std::slice::from_ref(&record), &arguments);
    let mut answers = store.aside(&waiting(store, by_hash, lease.ttl), &record).await?;
    if matches!(answers.first(), Some(Value::ServerError(error)) if error.code() == "NOSCRIPT") {
        let by_text = script::RENEW.invoke(By::Text, std::slice::from_ref(&record), &arguments);
        answers = store.aside(&waiting(store, by_text, lease.ttl), &record).await?;
    }
    let mut answers = answers.into_iter().map(|answer| {
        answer.extract_error().map_err(crate::connection::Failure::after_send).map_err(classify)
    });
    let (Some(renewed), Some(number)) = (answers.next(), answers.next()) else { return unreadable() };
    match (parts(&renewed?)?, number?) {
        ([Value::Int(1)], Value::Int(number)) => Ok(Some(number)),
        ([Value::Int(_)], _) => Ok(None),
        _ => unreadable(),
    }
}

fn waiting(store: &Store, renewal: redis::Cmd, ttl: Duration) -> Pipeline {
    let limit = (ttl / 12).clamp(Duration::from_millis(1), Duration::from_secs(1));
    let mut commands = redis::pipe();
    commands.add_command(renewal);
    commands.cmd("WAIT").arg(store.wait_replicas).arg(u64::try_from(limit.as_millis()).unwrap_or(1));
    commands
}
