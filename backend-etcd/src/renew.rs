//! Prolonging leases, one or many.

use std::time::Duration;

use distlock_core::{Claim, Error, Lease, LostReason, Renewal, Result};
use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};

use crate::error::{Failure, unreadable};
use crate::leases::StoreLease;
use crate::link::Repeat;
use crate::moving;
use crate::queue::{self, get, put};
use crate::record::Kind;
use crate::standing::Standing;
use crate::store::Store;

/// How many records one transaction looks at. Servers take 128 parts unless set up otherwise.
const BATCH: usize = 100;

/// Prolongs many leases, each batch of them with one exchange on a stream and one transaction at the
/// same time; the results stand in the leases' order.
///
/// The stream prolongs the store's leases; the transaction writes the records that are kept by that, and
/// looks whether the others are still there.
pub(crate) async fn renew_many(store: &Store, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let batches = leases.chunks(BATCH).map(|batch| renew_batch(store, batch, ttl));
    futures_util::future::join_all(batches).await.concat()
}

async fn renew_batch(store: &Store, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
    let standings = match standings(store, leases).await {
        Ok(standings) => standings,
        Err(failure) => return leases.iter().map(|_| Err(failure.error.clone())).collect(),
    };
    let known: Vec<_> =
        leases.iter().zip(&standings).filter_map(|(lease, s)| Some((lease, s.as_ref()?))).collect();
    let sent = store.clock.now();
    let (kept, there) = futures_util::join!(keep(store, &known), touch(store, &known));
    let mut prolonged = Vec::with_capacity(known.len());
    let mut to_move = Vec::new();
    for (at, (lease, standing)) in known.iter().enumerate() {
        let kept = kept.as_ref().map(|kept| kept.get(at).copied().unwrap_or(Keeping::Gone));
        let there = there.as_ref().map(|(there, term)| (there.get(at).copied().unwrap_or(false), *term));
        prolonged.push(match (kept, there) {
            (Ok(Keeping::Gone), _) | (_, Ok((false, _))) => Ok(None),
            (Err(failure), _) | (_, Err(failure)) => Err(failure.error.clone()),
            // It is one of two, and not known which: the store says, when it is asked again.
            (Ok(Keeping::InPart), _) => {
                store.standings.forget(&lease.claim);
                Err(Failure::unsettled().error)
            }
            // What prolonged it may be a leader that stood still and does not know its successor yet.
            (Ok(Keeping::Kept(store_lease)), Ok((true, term))) if store_lease.kept_in < term => {
                Err(Failure::unsettled().error)
            }
            (Ok(Keeping::Kept(store_lease)), Ok((true, _))) => {
                store.standings.prolonged(&lease.claim, standing.created, store_lease);
                if store_lease.is_of_a_former_leader() {
                    to_move.push((&lease.claim, Standing { lease: store_lease, ..(*standing).clone() }));
                }
                let longest = match standing.record.kind {
                    Kind::Lease => store_lease.ttl,
                    Kind::Writes => standing.record.ttl,
                };
                Ok(Some(lease.renewed(ttl.min(longest), sent)))
            }
        });
    }
    let moves = to_move.into_iter().map(async |(claim, mut standing)| {
        // What fails is tried again with the next renewal; this one holds either way.
        let _ = moving::move_on(store, claim, &mut standing).await;
    });
    futures_util::future::join_all(moves).await;
    let mut prolonged = prolonged.into_iter();
    let mut results = Vec::with_capacity(leases.len());
    for (lease, standing) in leases.iter().zip(&standings) {
        let renewed = standing.as_ref().and_then(|_| prolonged.next()).unwrap_or(Ok(None));
        results.push(match renewed {
            Ok(Some(renewal)) => Ok(renewal),
            Ok(None) => lost(store, &lease.claim).await,
            Err(error) => Err(error),
        });
    }
    results
}

/// What is known of each lease's claim, if it has a record with the lease's token.
pub(crate) async fn standings(store: &Store, leases: &[Lease]) -> Result<Vec<Option<Standing>>, Failure> {
    let mut found: Vec<_> = leases.iter().map(|lease| store.standings.of(&lease.claim)).collect();
    let unknown: Vec<_> = (0..leases.len()).filter(|at| found[*at].is_none()).collect();
    if !unknown.is_empty() {
        let names = unknown.iter().map(|at| get(store.names.record(&leases[*at].claim)));
        let answer = store.txn(Repeat::Freely, &Txn::new().and_then(names.collect::<Vec<_>>())).await?;
        for (at, records) in unknown.into_iter().zip(answer.ranges) {
            let Some(entry) = records.into_iter().next() else { continue };
            let Ok(record) = entry.record() else { continue };
            let lease = StoreLease::found(entry.lease);
            // The lease's holder says that it was granted.
            let standing = Standing {
                lease,
                is_own_lease: false,
                moving: None,
                record,
                created: entry.created,
                is_granted: true,
                before: None,
            };
            store.standings.note(&leases[at].claim, standing.clone());
            found[at] = Some(standing);
        }
    }
    for (standing, lease) in found.iter_mut().zip(leases) {
        let has_token = |s: &Standing| s.record.token(s.created).is_ok_and(|token| token == lease.token);
        *standing = standing.take().filter(|standing| standing.is_granted && has_token(standing));
    }
    Ok(found)
}

/// What became of the leases that a record may be on.
#[derive(Clone, Copy, Debug)]
enum Keeping {
    /// All of them were prolonged.
    Kept(StoreLease),
    /// Some of them.
    InPart,
    Gone,
}

/// Prolongs the store's leases, each of them once.
async fn keep(store: &Store, known: &[(&Lease, &Standing)]) -> Result<Vec<Keeping>, Failure> {
    let moving = known.iter().filter_map(|(_, standing)| standing.moving);
    let mut ids: Vec<_> = known.iter().map(|(_, s)| s.lease).chain(moving).map(|lease| lease.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let kept = store.keepalives.keep(&store.link, &store.clock, &ids).await?;
    let of = |lease: StoreLease| {
        let kept = ids.binary_search(&lease.id).ok().and_then(|at| kept.get(at).copied().flatten());
        kept.map(|kept| lease.prolonged(kept))
    };
    let mut keeping = Vec::with_capacity(known.len());
    for (_, standing) in known {
        let (lease, moving) = (of(standing.lease), standing.moving.map(of));
        if let (Some(shared), Some(lease)) = (&store.shared, lease) {
            shared.prolonged(lease).await;
        }
        keeping.push(match (lease, moving) {
            (Some(lease), None | Some(Some(_))) => Keeping::Kept(lease),
            (None, None | Some(None)) => Keeping::Gone,
            (Some(_), Some(None)) | (None, Some(Some(_))) => Keeping::InPart,
        });
    }
    Ok(keeping)
}

/// Writes the records that are kept by that, and says for each whether it is there, and the term of the leader that says so.
async fn touch(store: &Store, known: &[(&Lease, &Standing)]) -> Result<(Vec<bool>, u64), Failure> {
    if known.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let part = |(lease, standing): &(&Lease, &Standing)| {
        let name = store.names.record(&lease.claim);
        match standing.record.kind {
            Kind::Lease => TxnOp::get(name, Some(GetOptions::new().with_keys_only())),
            Kind::Writes => {
                let is_same = Compare::create_revision(name.clone(), CompareOp::Equal, standing.created);
                let write = put(&name, &standing.record, standing.lease.id);
                TxnOp::txn(Txn::new().when([is_same]).and_then([write]))
            }
        }
    };
    let parts: Vec<_> = known.iter().map(part).collect();
    let answer = match store.txn(Repeat::Freely, &Txn::new().and_then(parts)).await {
        // One lease that is gone fails the whole transaction.
        Err(failure) if failure.is_no_lease() && known.len() > 1 => {
            let (mut there, mut latest) = (Vec::with_capacity(known.len()), 0);
            for one in known {
                let (is_there, term) = Box::pin(touch(store, std::slice::from_ref(one))).await?;
                there.extend(is_there);
                latest = latest.max(term);
            }
            return Ok((there, latest));
        }
        Err(failure) if failure.is_no_lease() => return Ok((vec![false], 0)),
        answer => answer?,
    };
    let term = answer.term;
    let (mut ranges, mut nested) = (answer.ranges.into_iter(), answer.nested.into_iter());
    let is_there = |(_, standing): &(&Lease, &Standing)| match standing.record.kind {
        Kind::Lease => {
            ranges.next().is_some_and(|found| found.iter().any(|entry| entry.created == standing.created))
        }
        Kind::Writes => nested.next().is_some_and(|written| written.succeeded),
    };
    Ok((known.iter().map(is_there).collect(), term))
}

/// The claim does not hold its lock any more: says whether somebody else does.
async fn lost(store: &Store, claim: &Claim) -> Result<Renewal> {
    store.standings.forget(claim);
    let reason = match queue::look(store, claim, None).await {
        Ok(view) if view.first.as_ref().is_some_and(|first| first.name != store.names.record(claim)) => {
            LostReason::Stolen
        }
        // That it is lost is certain; only who has it is not.
        _ => LostReason::Expired,
    };
    Ok(Renewal::Lost(reason))
}

/// The answer to one of one.
pub(crate) fn only(results: Vec<Result<Renewal>>) -> Result<Renewal, Error> {
    results.into_iter().next().unwrap_or_else(unreadable)
}
