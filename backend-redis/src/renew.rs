//! Prolonging leases, one or many.

use std::collections::BTreeMap;
use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Lease, LostReason, Renewal, Result};
use redis::{Cmd, RedisWrite, Value};

use crate::connection::within;
use crate::error::{damaged, is_split, unreadable};
use crate::reply::parts;
use crate::script::{self, By};
use crate::store::{Answer, Store};

/// How many leases one script prolongs: enough to make the round trip's cost vanish, and few enough
/// that the server, which does one thing at a time, serves others in between.
const BATCH: usize = 500;

/// Longest time for one of several scripts: less than the client gives all of them, which is ttl/6 and at most 2 s.
const LIMIT: Duration = Duration::from_millis(1500);

/// Prolongs many leases, one round trip for each batch of one slot; the results stand in the
/// leases' order.
pub(crate) async fn renew_many(store: &Store, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let mut slots = BTreeMap::<u16, Vec<usize>>::new();
    let mut record = Vec::new();
    for (at, lease) in leases.iter().enumerate() {
        store.names.write_record(&lease.claim.key, &mut record);
        slots.entry(store.link.slot(&record)).or_default().push(at);
    }
    let batches: Vec<_> = slots.values().flat_map(|indices| indices.chunks(BATCH)).collect();
    // A node that is silent must not use up the time of the other nodes' leases.
    let limit = if slots.len() > 1 { (ttl / 8).min(LIMIT) } else { Duration::MAX };
    let renewed = futures_util::future::join_all(batches.iter().map(|batch| async {
        let renewed = renew_batch(store, leases, batch, ttl, limit).await;
        if batch.len() == 1 || !renewed.iter().any(|result| result.as_ref().is_err_and(is_split)) {
            return renewed;
        }
        // The slot is on its way to another node, and some of the records are there already.
        let single = batch.iter().map(|at| renew_batch(store, leases, std::slice::from_ref(at), ttl, limit));
        futures_util::future::join_all(single).await.concat()
    }));
    let mut results: Vec<_> = leases.iter().map(|_| None).collect();
    for (batch, renewed) in batches.iter().zip(renewed.await) {
        for (at, result) in batch.iter().zip(renewed) {
            results[*at] = Some(result);
        }
    }
    results.into_iter().map(|result| result.unwrap_or_else(unreadable)).collect()
}

/// One script for the leases at `batch`; the results stand in its order.
async fn renew_batch(
    store: &Store,
    leases: &[Lease],
    batch: &[usize],
    ttl: Duration,
    limit: Duration,
) -> Vec<Result<Renewal>> {
    let Some(first) = batch.first() else { return Vec::new() };
    let first = store.names.record(&leases[*first].claim.key);
    let command = |by| command(by, store, leases, batch, ttl);
    let answer = within(limit, store.run_command(Some(&first), command)).await;
    match answer.unwrap_or_else(|| Err(late(limit))) {
        Ok(answer) => {
            let codes = parts(&answer.value).unwrap_or_default();
            let each = batch.iter().enumerate();
            each.map(|(nth, at)| renewal(&leases[*at], codes.get(nth), ttl, &answer)).collect()
        }
        Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// Written in one piece: of ten thousand leases, none costs memory of its own.
fn command(by: By, store: &Store, leases: &[Lease], batch: &[usize], ttl: Duration) -> Cmd {
    /// Owner, token, and what stands before the key in a record's name.
    const EACH: usize = 32 + 20 + 32;
    let keys: usize = batch.iter().map(|at| leases[*at].claim.key.as_bytes().len()).sum();
    let mut command = script::RENEW.begin(by, batch.len(), 1 + 2 * batch.len(), keys + EACH * batch.len());
    let mut record = Vec::new();
    for at in batch {
        store.names.write_record(&leases[*at].claim.key, &mut record);
        command.write_arg(&record);
    }
    command.write_arg_fmt(ttl.as_micros());
    for at in batch {
        command.write_arg_fmt(leases[*at].claim.owner);
        command.write_arg_fmt(leases[*at].token);
    }
    command
}

fn late(limit: Duration) -> Error {
    let message = format!("the server did not renew within {limit:?}; whether it still will is not known");
    Error::new(ErrorKind::Unavailable, message).with_effect(Effect::Unknown)
}

fn renewal(lease: &Lease, code: Option<&Value>, ttl: Duration, answer: &Answer) -> Result<Renewal> {
    match code {
        Some(Value::Int(1)) => Ok(lease.renewed(ttl, answer.sent)),
        Some(Value::Int(0)) => Ok(Renewal::Lost(LostReason::Expired)),
        Some(Value::Int(2)) => Ok(Renewal::Lost(LostReason::Stolen)),
        Some(Value::Int(-1)) => Err(damaged()),
        _ => unreadable(),
    }
}
