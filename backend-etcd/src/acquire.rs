//! One attempt at a lock.

use std::time::Duration;

use distlock_core::{
    Busy, Claim, Cursor, Effect, Error, ErrorKind, Holder, Instant, Lease, LockRequest, Mode, Result, TryLock,
};

use crate::error::{Failure, Verdict};
use crate::leases::{StoreLease, ended_over_and_over, whole_seconds};
use crate::leasing::{lease_for, no_lease, put_by, refresh, rule_out, settle};
use crate::moving;
use crate::queue::{self, Added, Entry, View};
use crate::record::{Kind, Record};
use crate::standing::Standing;
use crate::store::Store;

/// An attempt whose lease or record vanishes midway begins anew this often.
const TRIES: usize = 4;

/// How a step of an attempt went.
enum Step {
    Done(TryLock),
    /// What it was built on is gone.
    Anew,
}

/// Takes the lock if it is free, and if not finds out who has it. One that asks for it gets a place in
/// the queue, or keeps the one it has.
///
/// Uncontended it costs one request, and one more if there is no lease of an earlier lock to use; a waiter that was woken, one.
pub(crate) async fn try_lock(store: &Store, request: &LockRequest, ttl: Duration) -> Result<TryLock> {
    refuse_other_modes(request)?;
    if let Some(shared) = &store.shared {
        shared.check(ttl)?;
    }
    for _ in 0..TRIES {
        let step = match store.standings.of(&request.claim) {
            Some(standing) => again(store, request, standing).await?,
            None => afresh(store, request, ttl).await?,
        };
        if let Step::Done(outcome) = step {
            return Ok(outcome);
        }
    }
    Err(ended_over_and_over())
}

pub(crate) fn refuse_other_modes(request: &LockRequest) -> Result<()> {
    match request.mode {
        Mode::Exclusive => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, "the etcd backend has exclusive locks only")
            .with_effect(Effect::None)),
    }
}

/// The attempt of a claim of which nothing is known, though its record may be there.
async fn afresh(store: &Store, request: &LockRequest, ttl: Duration) -> Result<Step> {
    let claim = &request.claim;
    let doubt = store.standings.in_doubt(claim);
    let (mut lease, is_used) = match doubt {
        // What an earlier attempt wrote, if it did, belongs to it.
        Some(lease) => (lease, true),
        None => lease_for(store, ttl).await?,
    };
    let mut record =
        Record { kind: kind(store, lease, ttl), ttl, base: 0, metadata: request.metadata.clone() };
    loop {
        record.base = store.floor.seen().value;
        let sent = store.clock.now();
        store.standings.begin(claim, lease, store.shared.is_none(), sent);
        let adding = async {
            if request.queue {
                join(store, claim, &record, lease.id).await
            } else {
                queue::take(store, claim, &record, lease.id).await
            }
        };
        let (kept, added) = futures_util::join!(refresh(store, lease, is_used), adding);
        lease = match &added {
            Ok(Added::Yes(view)) => kept.unless_outdated(lease, view.term),
            _ => kept,
        };
        settle(store, claim, &added, doubt.is_none());
        match added {
            Ok(Added::Outdated) => {}
            Ok(Added::Yes(view)) => {
                return added_record(store, request, view, Written { record, lease, sent });
            }
            Ok(Added::No(view)) if view.own.is_some() => return known(store, request, &view, lease),
            Ok(Added::No(view)) => {
                if let Some(free_in) = outlasted(store, request, &view).await? {
                    match doubt {
                        Some(lease) => rule_out(store, claim, lease).await?,
                        None => put_by(store, ttl, lease).await?,
                    }
                    return Ok(Step::Done(busy(store, &view, free_in)?));
                }
            }
            Err(failure) if failure.is_no_lease() => {
                no_lease(store, lease.id).await;
                return Ok(Step::Anew);
            }
            Err(failure) => return Err(failure.error),
        }
    }
}

/// Adds the record of one who waits. The lock alone is a request, and a free one is to cost no more than that: others are
/// looked for only where there were some of late.
async fn join(store: &Store, claim: &Claim, record: &Record, lease: i64) -> Result<Added, Failure> {
    if !store.contended.has(&claim.key)
        && let Some(view) = queue::take_blindly(store, claim, record, lease).await?
    {
        return Ok(Added::Yes(view));
    }
    let added = queue::join(store, claim, record, lease).await?;
    let is_contended = matches!(&added, Added::Yes(view) if !view.is_first());
    store.contended.note(&claim.key, is_contended);
    Ok(added)
}

/// A ttl that the store can't count is kept by writing the record.
pub(crate) fn kind(store: &Store, lease: StoreLease, ttl: Duration) -> Kind {
    let seconds = u64::try_from(whole_seconds(ttl)).unwrap_or(u64::MAX);
    let is_countable = ttl >= Duration::from_secs(1) && lease.ttl.as_secs() <= seconds;
    if store.shared.is_some() || is_countable { Kind::Lease } else { Kind::Writes }
}

/// A record, what keeps it, and an instant before it was sent.
struct Written {
    record: Record,
    lease: StoreLease,
    sent: Instant,
}

fn added_record(store: &Store, request: &LockRequest, view: View, written: Written) -> Result<Step> {
    let Written { record, lease, sent } = written;
    let is_granted = view.is_first();
    let created = view.revision;
    let before = view.last.as_ref().filter(|_| !is_granted).and_then(|name| store.names.read(name)?.1);
    let is_own_lease = store.shared.is_none();
    let standing = Standing { lease, is_own_lease, moving: None, record, created, is_granted, before };
    let outcome = if is_granted {
        TryLock::Acquired(grant(request, &standing, sent)?)
    } else {
        busy(store, &view, silence_left(store, request, &view)?)?
    };
    store.standings.note(&request.claim, standing);
    Ok(Step::Done(outcome))
}

/// Notes the record of an earlier attempt of the claim, which was not answered or not made here.
fn known(store: &Store, request: &LockRequest, view: &View, lease: StoreLease) -> Result<Step> {
    if let Some(own) = &view.own {
        let is_own_lease = own.lease == lease.id && store.shared.is_none();
        let lease = if own.lease == lease.id { lease } else { StoreLease::found(own.lease) };
        let (record, created) = (own.record()?, own.created);
        let standing =
            Standing { lease, is_own_lease, moving: None, record, created, is_granted: false, before: None };
        store.standings.note(&request.claim, standing);
    }
    Ok(Step::Anew)
}

/// The attempt of a claim that has a record, as far as is known.
async fn again(store: &Store, request: &LockRequest, mut standing: Standing) -> Result<Step> {
    let claim = &request.claim;
    let mut is_asked_anew = false;
    loop {
        let keeping = moving::keep(store, &standing, is_asked_anew);
        let (kept, view) = futures_util::join!(keeping, queue::look(store, claim, Some(standing.created)));
        let (kept, view) = (kept?, view?);
        let is_there = view.own.as_ref().is_some_and(|own| own.created == standing.created);
        let Some(lease) = kept.filter(|_| is_there) else {
            store.standings.forget(claim);
            return Ok(Step::Anew);
        };
        standing.lease = lease;
        // What prolonged it may be a leader that stood still and does not know its successor yet.
        if lease.kept_in < view.term {
            is_asked_anew = true;
            continue;
        }
        if lease.is_of_a_former_leader() && !moving::move_on(store, claim, &mut standing).await? {
            return Ok(Step::Anew);
        }
        let lease = standing.lease;
        if !view.is_first() {
            let Some(free_in) = outlasted(store, request, &view).await? else { continue };
            standing.before = view.last.as_ref().and_then(|name| store.names.read(name)?.1);
            store.standings.note(claim, standing);
            return Ok(Step::Done(busy(store, &view, free_in)?));
        }
        let mut sent = lease.alive_from;
        if !standing.is_granted {
            standing.record.base = view.own.as_ref().map_or(Ok(0), |own| own.record().map(|own| own.base))?;
        }
        // From before the floor was raised: its token would be too low.
        let is_outdated = !standing.is_granted && standing.record.base < view.floor.value;
        if standing.record.kind == Kind::Writes || is_outdated {
            if standing.record.kind == Kind::Writes {
                sent = store.clock.now();
            }
            if is_outdated {
                standing.record.base = view.floor.value;
            }
            let floor = (!standing.is_granted).then_some(view.floor);
            let (created, record) = (standing.created, &standing.record);
            match queue::rewrite(store, claim, created, record, lease.id, floor).await {
                Ok(view) if view.is_first() => {}
                Err(failure) if failure.verdict != Verdict::NoLease => return Err(failure.error),
                Ok(_) | Err(_) => {
                    store.standings.forget(claim);
                    return Ok(Step::Anew);
                }
            }
        }
        standing.is_granted = true;
        let granted = grant(request, &standing, sent)?;
        store.standings.note(claim, standing);
        return Ok(Step::Done(TryLock::Acquired(granted)));
    }
}

/// The grant: it lasts from the request that started the store's expiry.
pub(crate) fn grant(request: &LockRequest, standing: &Standing, sent: Instant) -> Result<Lease> {
    let token = standing.record.token(standing.created)?;
    Ok(Lease::granted(request, token, standing.record.ttl, standing.counts_from(sent)))
}

/// Removes the first record if it is kept by being written and was not for its ttl, and the claim that
/// looks stands directly behind it: then `None`, and the queue is to be looked at again. Else for how
/// much longer it can't be removed, if that is known.
async fn outlasted(store: &Store, request: &LockRequest, view: &View) -> Result<Option<Option<Duration>>> {
    let left = silence_left(store, request, view)?;
    let Some(first) = view.first.as_ref().filter(|_| left == Some(Duration::ZERO)) else {
        return Ok(Some(left));
    };
    // Written after all, or gone: either way it is not as it was.
    queue::delete_unless_written(store, &request.claim.key, first).await?;
    Ok(None)
}

fn silence_left(store: &Store, request: &LockRequest, view: &View) -> Result<Option<Duration>> {
    let Some(first) = view.first.as_ref().filter(|_| view.is_second()) else { return Ok(None) };
    let record = first.record()?;
    if record.kind == Kind::Lease {
        return Ok(None);
    }
    let silent = store.silences.of(&request.claim.key, first, store.clock.now());
    Ok(Some(record.ttl.saturating_sub(silent)))
}

pub(crate) fn busy(store: &Store, view: &View, free_in: Option<Duration>) -> Result<TryLock> {
    let mut busy = Busy::unknown();
    if let Some(first) = &view.first {
        busy.holder = Some(holder(store, first)?);
    }
    busy.free_in = free_in;
    Ok(TryLock::Busy(busy.cursor(Cursor(view.revision.cast_unsigned()))))
}

/// Who has this record.
pub(crate) fn holder(store: &Store, entry: &Entry) -> Result<Holder> {
    let record = entry.record()?;
    Ok(Holder::new(entry.owner(store)?, record.token(entry.created)?).metadata(record.metadata))
}
