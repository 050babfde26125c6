//! Prolonging leases, one or many.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Claim, Error, Lease, LostReason, Renewal, Result};
use futures_util::future::join_all;
use tokio::sync::MutexGuard;

use crate::acquire;
use crate::generation::Generation;
use crate::places::{Place, State};
use crate::record::Record;
use crate::release;
use crate::session::{Failure, Outcome, Write};
use crate::store::Store;

/// How many nodes one request writes: enough to make the round trip's cost vanish, and far below the
/// server's limit of a megabyte.
const BATCH: usize = 100;
/// So many lost leases are taken out of a batch before the rest go one by one.
const LOSSES: usize = 3;

/// Prolongs many leases, one request for each batch; the results stand in the leases' order.
pub(crate) async fn renew_many(store: &Arc<Store>, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let generation = match store.generation().await {
        Ok(generation) => generation,
        Err(error) => return leases.iter().map(|_| Err(error.clone())).collect(),
    };
    let ttl = ttl.min(generation.longest_ttl());
    let batches = leases.chunks(BATCH).map(|batch| renew_batch(store, &generation, batch, ttl));
    join_all(batches).await.concat()
}

async fn renew_batch(
    store: &Store,
    generation: &Generation,
    leases: &[Lease],
    ttl: Duration,
) -> Vec<Result<Renewal>> {
    let mut results: Vec<Option<Result<Renewal>>> = leases.iter().map(|_| None).collect();
    if leases.len() > 1 {
        together(generation, leases, ttl, &mut results).await;
    }
    let alone = leases.iter().zip(results).map(|(lease, result)| async {
        match result {
            Some(result) => result,
            None => renew(store, generation, lease, ttl).await,
        }
    });
    join_all(alone).await
}

/// Writes the nodes of leases in one request. Those that stay without a result go one by one.
async fn together(
    generation: &Generation,
    leases: &[Lease],
    ttl: Duration,
    results: &mut [Option<Result<Renewal>>],
) {
    let places: Vec<_> = leases.iter().map(|lease| generation.places.get(&lease.claim)).collect();
    let mut batch: Vec<(usize, &Place, MutexGuard<'_, State>)> = Vec::new();
    for (at, place) in places.iter().enumerate() {
        // One that is busy goes alone: to wait for one while others are held could go round in a circle.
        if let Some(place) = place
            && let Ok(state) = place.state.try_lock()
            && state.token.is_some()
            && state.own.as_ref().is_some_and(|own| own.version.is_some())
        {
            batch.push((at, &**place, state));
        }
    }
    for _ in 0..=LOSSES {
        if batch.len() < 2 {
            return;
        }
        for (_, _, state) in &mut batch {
            prolong(state, ttl);
        }
        let writes: Vec<_> = batch.iter().filter_map(|(_, _, state)| write_of(state)).collect();
        let written = generation.session.write_all(&writes).await;
        match written {
            Ok(sent) => {
                for (at, place, state) in &mut batch {
                    if let Some(version) = state.own.as_mut().and_then(|own| own.version.as_mut()) {
                        *version += 1;
                    }
                    generation.places.keep_until(place, sent.plus(state.ttl));
                    results[*at] = Some(Ok(renewed(generation, &leases[*at], ttl, sent)));
                }
                return;
            }
            Err((Some(failed), Failure::NoNode | Failure::OtherVersion)) if failed < batch.len() => {
                drop(batch.remove(failed));
            }
            Err((_, failure)) => {
                for (at, _, state) in &mut batch {
                    if !failure.has_no_effect()
                        && let Some(own) = &mut state.own
                    {
                        own.version = None;
                    }
                    results[*at] = Some(Err(failure.clone().into()));
                }
                return;
            }
        }
    }
}

fn write_of<'a>(state: &'a MutexGuard<'_, State>) -> Option<Write<'a>> {
    let own = state.own.as_ref()?;
    Some(Write { path: &own.path, data: &state.data, version: own.version? })
}

async fn renew(store: &Store, generation: &Generation, lease: &Lease, ttl: Duration) -> Result<Renewal> {
    let Some(place) = generation.places.get(&lease.claim) else {
        return Ok(Renewal::Lost(lost(store, generation, &lease.claim).await?));
    };
    let mut state = place.state.lock().await;
    if state.over || state.token.is_none() || state.leaving {
        drop(state);
        return Ok(Renewal::Lost(lost(store, generation, &lease.claim).await?));
    }
    prolong(&mut state, ttl);
    match acquire::write(generation, &mut state).await? {
        Some(sent) => {
            generation.places.keep_until(&place, sent.plus(state.ttl));
            Ok(renewed(generation, lease, ttl, sent))
        }
        None => {
            let reason = release::reason(generation, &place.lock).await?;
            generation.places.remove(&place, &mut state);
            Ok(Renewal::Lost(reason))
        }
    }
}

fn renewed(generation: &Generation, lease: &Lease, ttl: Duration, sent: distlock_core::Instant) -> Renewal {
    Renewal::Renewed { valid_until: generation.valid_until(lease.margin, ttl, sent) }
}

/// The node never promises less than before.
fn prolong(state: &mut State, ttl: Duration) {
    if ttl > state.ttl
        && let Some(record) = Record::decode(&state.data)
    {
        state.ttl = ttl;
        state.data = Record { ttl, ..record }.encode();
    }
}

/// Why a lease is over of which this session has nothing.
async fn lost(store: &Store, generation: &Generation, claim: &Claim) -> Outcome<LostReason> {
    let is_bereft = store.bereft.take(claim.owner);
    let lock = generation.names.lock(&claim.key);
    match release::reason(generation, &lock).await? {
        _ if is_bereft => Ok(LostReason::SessionClosed),
        reason => Ok(reason),
    }
}

/// Resolves when a lease may have been lost.
pub(crate) async fn watch_loss(store: &Arc<Store>, lease: &Lease) -> Result<(), Error> {
    /// A lock that is held for less is not worth a request.
    const SOON: Duration = Duration::from_millis(150);
    tokio::time::sleep(SOON).await;
    let generation = store.generation().await?;
    let Some(place) = generation.places.get(&lease.claim) else { return Ok(()) };
    let own = place.state.lock().await.own.clone();
    drop(place);
    let Some(own) = own else { return Ok(()) };
    match generation.session.watch_end(&own.path).await {
        Ok(mut watch) => {
            tokio::select! {
                _ = watch.event() => {}
                () = generation.over() => {}
            }
            Ok(())
        }
        Err(Failure::NoNode) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}
