//! Prolonging leases, one or many.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Lease, LockKey, LostReason, OwnerId, Renewal, Result};

use super::record::{micros, ttl_micros};
use crate::hex::push_hex;
use crate::server::connections::Lane;
use crate::server::statement::Answer;
use crate::server::store::Store;

/// How many leases one statement prolongs: enough to make the round trip's cost vanish, and few enough
/// that nobody waits long for a row among them.
const BATCH: usize = 500;

/// Prolongs many leases, one statement a batch; the results stand in the leases' order.
pub(super) async fn renew_many(store: &Store, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let batches = leases.chunks(BATCH).map(|batch| async {
        match renew_batch(store, batch, ttl).await {
            Ok(results) => results,
            // One row that somebody keeps locked must not cost the other leases.
            Err(error) if batch.len() > 1 && error.effect() == Effect::None && error.is_retryable() => {
                renew_each(store, batch, ttl).await
            }
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    });
    futures_util::future::join_all(batches).await.concat()
}

async fn renew_each(store: &Store, batch: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let each = batch.iter().map(|lease| async {
        let renewed = renew_batch(store, std::slice::from_ref(lease), ttl).await;
        renewed.and_then(|mut results| results.pop().unwrap_or_else(|| Err(not_known())))
    });
    futures_util::future::join_all(each).await
}

async fn renew_batch(store: &Store, batch: &[Lease], ttl: Duration) -> Result<Vec<Result<Renewal>>> {
    let list = json_list(batch);
    let statement = store.sql.renew.with([list.as_str().into(), ttl_micros(ttl).into()]);
    let renewed = store.run(Lane::Upkeep, statement).await?;
    if usize::try_from(renewed.matched).is_ok_and(|count| count == batch.len()) {
        return Ok(batch.iter().map(|lease| Ok(lease.renewed(ttl, renewed.sent))).collect());
    }
    let standing = store.run(Lane::Upkeep, store.sql.standing.with([list.into()])).await?;
    let elapsed = store.clock().now().since(renewed.sent);
    let locks = Locks::read(&standing)?;
    Ok(batch.iter().map(|lease| locks.renewal(lease, ttl, &renewed, elapsed)).collect())
}

/// How locks stand: token, owner, time left.
struct Locks(HashMap<LockKey, (i64, Option<OwnerId>, Duration)>);

impl Locks {
    fn read(answer: &Answer) -> Result<Self> {
        let mut locks = HashMap::with_capacity(answer.rows.len());
        for row in &answer.rows {
            let key = LockKey::new(row.maybe_bytes(0)?.unwrap_or_default())?;
            let owner = row.maybe_bytes(1)?.and_then(OwnerId::from_bytes);
            let left = row.maybe_int(3)?.map_or(Duration::ZERO, micros);
            locks.insert(key, (row.int(2)?, owner, left));
        }
        Ok(Self(locks))
    }

    fn renewal(&self, lease: &Lease, ttl: Duration, renewed: &Answer, elapsed: Duration) -> Result<Renewal> {
        let Some((token, owner, left)) = self.0.get(&lease.claim.key) else {
            return Ok(Renewal::Lost(LostReason::Expired));
        };
        if left.is_zero() {
            return Ok(Renewal::Lost(LostReason::Expired));
        }
        if *owner != Some(lease.claim.owner) {
            return Ok(Renewal::Lost(LostReason::Stolen));
        }
        if *token != lease.token.get_i64() {
            return Ok(Renewal::Lost(LostReason::Expired));
        }
        // It was prolonged, since no more than that has gone by.
        if *left + elapsed >= ttl { Ok(lease.renewed(ttl, renewed.sent)) } else { Err(not_known()) }
    }
}

fn not_known() -> Error {
    let message =
        "whether the lease was prolonged is not known, since the server's clock jumped; it is asked again";
    Error::new(ErrorKind::Unavailable, message).with_effect(Effect::Unknown)
}

/// Key, owner and token of each lease.
fn json_list(leases: &[Lease]) -> String {
    let keys: usize = leases.iter().map(|lease| lease.claim.key.as_bytes().len()).sum();
    let mut list = String::with_capacity(2 * keys + leases.len() * 80);
    list.push('[');
    for (at, lease) in leases.iter().enumerate() {
        list.push_str(if at == 0 { "{\"k\":\"" } else { ",{\"k\":\"" });
        push_hex(&mut list, lease.claim.key.as_bytes());
        list.push_str("\",\"o\":\"");
        push_hex(&mut list, lease.claim.owner.as_bytes());
        // Writing to a String can't fail.
        let _ = write!(list, "\",\"n\":{}}}", lease.token);
    }
    list.push(']');
    list
}
