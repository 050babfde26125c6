//! Prolonging leases, one or many.

use std::collections::BTreeMap;
use std::time::Duration;

use distlock_core::{Lease, LostReason, Renewal, Result};
use redis::Value;

use crate::acquire::micros;
use crate::error::{damaged, unreadable};
use crate::reply::parts;
use crate::script;
use crate::store::{Answer, Store};

/// How many leases one script prolongs: enough to make the round trip's cost vanish, and few enough
/// that the server, which does one thing at a time, serves others in between.
const BATCH: usize = 500;

/// Prolongs many leases, one round trip for each batch of one slot; the results stand in the
/// leases' order.
pub(crate) async fn renew_many(store: &Store, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let mut slots = BTreeMap::<u16, Vec<usize>>::new();
    let records: Vec<_> = leases.iter().map(|lease| store.names.record(&lease.claim.key)).collect();
    for (at, record) in records.iter().enumerate() {
        slots.entry(store.link.slot(record)).or_default().push(at);
    }
    let batches: Vec<_> = slots.values().flat_map(|indices| indices.chunks(BATCH)).collect();
    let answers = futures_util::future::join_all(batches.iter().map(|batch| async {
        let records: Vec<_> = batch.iter().map(|at| records[*at].clone()).collect();
        renew_batch(store, &records, batch.iter().map(|at| &leases[*at]), ttl).await
    }));
    let mut results: Vec<_> = leases.iter().map(|_| unreadable()).collect();
    for (batch, answer) in batches.iter().zip(answers.await) {
        let codes = answer.as_ref().map(|answer| parts(&answer.value).unwrap_or_default());
        for (nth, at) in batch.iter().enumerate() {
            results[*at] = match (&answer, &codes) {
                (Ok(answer), Ok(codes)) => renewal(&leases[*at], codes.get(nth), ttl, answer),
                (Err(error), _) => Err(error.clone()),
                (_, Err(error)) => Err((*error).clone()),
            };
        }
    }
    results
}

async fn renew_batch(
    store: &Store,
    records: &[Vec<u8>],
    leases: impl Iterator<Item = &Lease>,
    ttl: Duration,
) -> Result<Answer> {
    let mut arguments = vec![micros(ttl)];
    for lease in leases {
        arguments.push(lease.claim.owner.to_string().into_bytes());
        arguments.push(lease.token.to_string().into_bytes());
    }
    let arguments: Vec<_> = arguments.iter().map(Vec::as_slice).collect();
    store.run(&script::RENEW, records, &arguments).await
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
