//! Passing a held lock on.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Instant, Lease, LockRequest, Release, Result, TryLock};

use crate::acquire;
use crate::floor::Floor;
use crate::generation::{Generation, Look};
use crate::names;
use crate::places::{Own, Place, State};
use crate::release;
use crate::session::{Failure, Outcome, Succession, Successor, Write};
use crate::store::Store;

/// So often the floor may be raised under a hand-over before it is left to a release and an attempt.
const FLOORS: usize = 2;

/// Passes the lock of `lease` on to `next`, in one transaction or not at all. `Busy` if the lease is not held any more, or if
/// others stand in the queue: nobody is passed there.
pub(crate) async fn hand_over(
    store: &Arc<Store>,
    lease: &Lease,
    next: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    acquire::refuse_other_modes(next)?;
    next.require_key_of(lease)?;
    let generation = store.generation().await?;
    let Some(old) = generation.places.get(&lease.claim) else {
        return repeat(store, &generation, next, ttl).await;
    };
    let mut held = old.state.lock().await;
    let own = held.own.clone().filter(|_| held.token.is_some() && !held.leaving && !held.over);
    let Some(own) = own else {
        drop(held);
        return repeat(store, &generation, next, ttl).await;
    };
    if generation.places.get(&next.claim).is_some() {
        let is_next = make_way(&generation, &old, &mut held, next).await?;
        drop(held);
        return if is_next { acquire::try_lock(store, next, ttl).await } else { busy() };
    }
    // Others are expected, and to learn that they are there costs a transaction.
    if store.contended.has(&next.claim.key) {
        return busy();
    }
    let place = generation.places.enter(&next.claim, &old.lock, acquire::kept_until(store.clock.now(), next));
    // Who is at work on it does not wait for the old one's, so neither can wait for ever.
    let Ok(mut state) = place.state.try_lock() else { return busy() };
    if state.own.is_some() || state.unsure || state.over {
        return busy();
    }
    let ttl = ttl.min(generation.longest_ttl());
    acquire::describe(&mut state, next, ttl);
    let passed = pass_on(store, &generation, &own, &place, &mut state).await;
    let outcome = match passed {
        Ok(Some(sent)) => {
            generation.places.remove(&old, &mut held);
            Ok(acquire::granted(&generation, &place, &state, next, ttl, sent))
        }
        Ok(None) => busy(),
        Err(failure) => Err(failure.into()),
    };
    if state.own.is_none() && !state.unsure && !state.over {
        generation.places.remove(&place, &mut state);
    }
    outcome
}

/// Makes the new place in the transaction that removes the old one; says when that left, if it was carried out.
///
/// Numbers only rise, so whoever gets the very next one after the holder's has nobody but the holder in front of it. Which tokens
/// are raised by how much is as it was, or nothing happens.
async fn pass_on(
    store: &Store,
    generation: &Generation,
    before: &Own,
    place: &Place,
    state: &mut State,
) -> Outcome<Option<Instant>> {
    let (lock, owner) = (&place.lock, place.claim.owner);
    let Some(path) = names::next_place(lock, &before.path, owner) else { return Ok(None) };
    let (prefix, beside) = (names::place(lock, owner), generation.names.token_floor());
    for _ in 0..FLOORS {
        let Some((floor, version)) = generation.floor() else { return Ok(None) };
        let successor = Successor {
            beside: (&beside, version),
            before: &before.path,
            prefix: &prefix,
            path: &path,
            data: &state.data,
        };
        // Until it is answered, there may be a node of this attempt.
        state.unsure = true;
        let succession = generation.session.succeed(&successor).await;
        state.unsure = succession.as_ref().is_err_and(|failure| !failure.has_no_effect());
        match succession? {
            Succession::Done(made) => {
                state.token = floor.token(made.czxid);
                state.own = Some(Own { path: made.path, czxid: made.czxid, version: Some(1) });
                return Ok(Some(made.sent));
            }
            Succession::OtherVersion => match generation.look_now(lock).await {
                Ok(_) => {}
                Err(Failure::NoNode) => return Ok(None),
                Err(failure) => return Err(failure),
            },
            Succession::Followed => return fall_in(store, generation, before, place, state).await,
            Succession::Gone => return Ok(None),
        }
    }
    Ok(None)
}

/// After somebody came: makes the new place, and removes the old one if whoever came has gone again. If not, the new
/// place goes.
async fn fall_in(
    store: &Store,
    generation: &Generation,
    before: &Own,
    place: &Place,
    state: &mut State,
) -> Outcome<Option<Instant>> {
    let lock = &place.lock;
    state.unsure = true;
    let prefix = names::place(lock, place.claim.owner);
    let made = generation.session.create_place(&prefix, &state.data).await;
    state.unsure = made.as_ref().is_err_and(|failure| !failure.has_no_effect());
    let made = match made {
        Err(Failure::NoNode) => return Ok(None),
        made => made?,
    };
    state.own = Some(Own { path: made.path.clone(), czxid: made.czxid, version: Some(0) });
    let look = match generation.look(lock).await {
        Err(Failure::NoNode) => Look { queue: Vec::new(), floor: Floor::default() },
        look => look?,
    };
    let is_at = |at: usize, path: &str| {
        let name = path.strip_prefix(lock).map(|name| &name[1..]);
        look.queue.get(at).is_some_and(|contender| Some(&*contender.name) == name)
    };
    if is_at(0, &before.path) && is_at(1, &made.path) {
        state.unsure = true;
        let write = Write { path: &made.path, data: &state.data, version: 0 };
        let relieved = generation.session.relieve(&write, &before.path).await;
        state.unsure = relieved.as_ref().is_err_and(|failure| !failure.has_no_effect());
        if let Some(sent) = relieved? {
            state.token = look.floor.token(made.czxid);
            state.own = Some(Own { path: made.path, czxid: made.czxid, version: Some(1) });
            return Ok(Some(sent));
        }
    } else if is_at(0, &before.path) {
        store.contended.note(&place.claim.key, true);
    }
    acquire::remove(generation, place, state).await?;
    Ok(None)
}

/// Removes the old place if the next claim stands directly behind it, in the queue already; true if that is the first one now.
async fn make_way(
    generation: &Generation,
    old: &Place,
    held: &mut State,
    next: &LockRequest,
) -> Outcome<bool> {
    let look = match generation.look_now(&old.lock).await {
        Err(Failure::NoNode) => return Ok(false),
        look => look?,
    };
    let mut owners = look.queue.iter().map(|contender| contender.owner);
    let (first, second, next) = (owners.next().flatten(), owners.next().flatten(), Some(next.claim.owner));
    if first == next {
        // It was passed on before, and the answer was lost.
        generation.places.remove(old, held);
        return Ok(true);
    }
    if first != Some(old.claim.owner) || second != next {
        return Ok(false);
    }
    held.leaving = true;
    generation.places.keep_until(old, generation.clock.now());
    Ok(release::leave(generation, old, held).await? == Release::Released)
}

/// The lease is over: by an earlier hand-over to the same claim, whose answer was lost, or otherwise.
async fn repeat(
    store: &Arc<Store>,
    generation: &Generation,
    next: &LockRequest,
    ttl: Duration,
) -> Result<TryLock> {
    let Some(place) = generation.places.get(&next.claim) else { return busy() };
    let look = match generation.look_now(&place.lock).await {
        Err(Failure::NoNode) => return busy(),
        look => look?,
    };
    let first = look.queue.first().and_then(|contender| contender.owner);
    if first == Some(next.claim.owner) { acquire::try_lock(store, next, ttl).await } else { busy() }
}

fn busy() -> Result<TryLock> {
    Ok(TryLock::Busy(Busy::unknown()))
}
