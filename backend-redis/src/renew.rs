//! Prolonging leases, one or many.

use std::collections::BTreeMap;
use std::time::Duration;

use distlock_core::{Effect, Error, ErrorKind, Lease, LostReason, Renewal, Result};
use redis::Value;

use crate::acquire::micros;
use crate::connection::within;
use crate::error::{damaged, is_split, unreadable};
use crate::reply::parts;
use crate::script;
use crate::store::{Answer, Store};

/// How many leases one script prolongs: enough to make the round trip's cost vanish, and few enough
/// that the server, which does one thing at a time, serves others in between.
const BATCH: usize = 500;

/// Longest time for one script: less than the client gives all of them, which is ttl/6 and at most 2 s.
const LIMIT: Duration = Duration::from_millis(1500);

/// Prolongs many leases, one round trip for each batch of one slot; the results stand in the
/// leases' order.
pub(crate) async fn renew_many(store: &Store, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let mut slots = BTreeMap::<u16, Vec<usize>>::new();
    let records: Vec<_> = leases.iter().map(|lease| store.names.record(&lease.claim.key)).collect();
    for (at, record) in records.iter().enumerate() {
        slots.entry(store.link.slot(record)).or_default().push(at);
    }
    let batches: Vec<_> = slots.values().flat_map(|indices| indices.chunks(BATCH)).collect();
    let renewed = futures_util::future::join_all(batches.iter().map(|batch| async {
        let renewed = renew_batch(store, &records, leases, batch, ttl).await;
        if batch.len() == 1 || !renewed.iter().any(|result| result.as_ref().is_err_and(is_split)) {
            return renewed;
        }
        // The slot is on its way to another node, and some of the records are there already.
        let single =
            batch.iter().map(|at| renew_batch(store, &records, leases, std::slice::from_ref(at), ttl));
        futures_util::future::join_all(single).await.concat()
    }));
    let mut results: Vec<_> = leases.iter().map(|_| unreadable()).collect();
    for (batch, renewed) in batches.iter().zip(renewed.await) {
        for (at, result) in batch.iter().zip(renewed) {
            results[*at] = result;
        }
    }
    results
}

/// One script for the leases at `batch`; the results stand in its order.
async fn renew_batch(
    store: &Store,
    records: &[Vec<u8>],
    leases: &[Lease],
    batch: &[usize],
    ttl: Duration,
) -> Vec<Result<Renewal>> {
    let records: Vec<_> = batch.iter().map(|at| records[*at].clone()).collect();
    let mut arguments = vec![micros(ttl)];
    for at in batch {
        arguments.push(leases[*at].claim.owner.to_string().into_bytes());
        arguments.push(leases[*at].token.to_string().into_bytes());
    }
    let arguments: Vec<_> = arguments.iter().map(Vec::as_slice).collect();
    // A node that is silent must not use up the time of the other nodes' leases.
    let limit = (ttl / 8).min(LIMIT);
    let answer = within(limit, store.run(&script::RENEW, &records, &arguments)).await;
    match answer.unwrap_or_else(|| Err(late(limit))) {
        Ok(answer) => {
            let codes = parts(&answer.value).unwrap_or_default();
            let each = batch.iter().enumerate();
            each.map(|(nth, at)| renewal(&leases[*at], codes.get(nth), ttl, &answer)).collect()
        }
        Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
    }
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
