//! Giving places up: held locks, waits, and attempts of which nobody knows how far they got.

use std::sync::Arc;

use distlock_core::{Claim, LostReason, Release, Result};

use crate::generation::Generation;
use crate::names::Contender;
use crate::places::{Place, State};
use crate::session::{Failure, Outcome};
use crate::store::Store;

/// Removes everything of a claim. What can't be removed now is removed in the background, as long
/// as the session lives.
pub(crate) async fn unlock(store: &Arc<Store>, claim: &Claim) -> Result<Release> {
    let generation = store.generation().await?;
    let is_bereft = store.bereft.take(claim.owner);
    if let Some(place) = generation.places.get(claim) {
        let mut state = place.state.lock().await;
        if !state.over {
            state.leaving = true;
            generation.places.keep_until(&place, generation.clock.now());
            return Ok(leave(&generation, &place, &mut state).await?);
        }
    }
    let release = withdraw(&generation, claim).await?;
    Ok(match release {
        // It was held in a session that is over, and its node goes with that or went just now.
        Release::Released if is_bereft => Release::NotHeld(LostReason::SessionClosed),
        release => release,
    })
}

/// Gives a place up whose end has come.
pub(crate) async fn give_up(generation: &Generation, place: &Place) -> Outcome<()> {
    let mut state = place.state.lock().await;
    if state.over || (!state.leaving && place.ends_at() > generation.clock.now()) {
        if !state.over {
            generation.places.again(place, place.ends_at());
        }
        return Ok(());
    }
    state.leaving = true;
    leave(generation, place, &mut state).await.map(drop)
}

/// Removes a place that is leaving. Its state must be locked.
pub(crate) async fn leave(generation: &Generation, place: &Place, state: &mut State) -> Outcome<Release> {
    state.stop_watching();
    let known = (!state.unsure).then(|| state.own.clone()).flatten();
    let release = match known {
        Some(own) if state.token.is_some() => match generation.session.delete(&own.path, None).await {
            Ok(()) => Release::Released,
            Err(Failure::NoNode) => Release::NotHeld(reason(generation, &place.lock).await?),
            Err(failure) => return Err(failure),
        },
        _ => withdraw(generation, &place.claim).await?,
    };
    generation.places.remove(place, state);
    Ok(release)
}

/// Removes all nodes of a claim, whichever session made them.
pub(crate) async fn withdraw(generation: &Generation, claim: &Claim) -> Outcome<Release> {
    let lock = generation.names.lock(&claim.key);
    let queue = match generation.look_now(&lock).await {
        Ok(look) => look.queue,
        Err(Failure::NoNode) => return Ok(Release::NotHeld(LostReason::Expired)),
        Err(failure) => return Err(failure),
    };
    let is_own = |contender: &&Contender| contender.owner == Some(claim.owner);
    let mut was_first = queue.first().as_ref().is_some_and(is_own);
    for own in queue.iter().filter(is_own) {
        match generation.session.delete(&format!("{lock}/{}", own.name), None).await {
            Ok(()) => {}
            Err(Failure::NoNode) => was_first = false,
            Err(failure) => return Err(failure),
        }
    }
    Ok(if was_first {
        Release::Released
    } else if queue.iter().any(|contender| contender.owner != Some(claim.owner)) {
        Release::NotHeld(LostReason::Stolen)
    } else {
        Release::NotHeld(LostReason::Expired)
    })
}

/// Why a node is gone that was held.
pub(crate) async fn reason(generation: &Generation, lock: &str) -> Outcome<LostReason> {
    match generation.look(lock).await {
        Ok(look) if look.queue.is_empty() => Ok(LostReason::Expired),
        Ok(_) => Ok(LostReason::Stolen),
        Err(Failure::NoNode) => Ok(LostReason::Expired),
        Err(failure) => Err(failure),
    }
}
