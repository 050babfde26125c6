//! An attempt's own node: made, found again, written and removed.

use distlock_core::Instant;

use super::{Attempt, ROUNDS};
use crate::generation::Generation;
use crate::names;
use crate::places::{Own, Place, State};
use crate::session::{Failure, Outcome};

impl Attempt<'_> {
    /// Makes a place, and what must be there for it; says when the request left.
    pub(super) async fn create(&self, state: &mut State) -> Outcome<Instant> {
        let prefix = names::place(&self.place.lock, self.request.claim.owner);
        for _ in 0..ROUNDS {
            state.unsure = true;
            match self.generation.session.create_place(&prefix, &state.data).await {
                Ok(made) => {
                    state.unsure = false;
                    state.own = Some(Own { path: made.path, czxid: made.czxid, version: Some(0) });
                    return Ok(made.sent);
                }
                Err(Failure::NoNode) => state.unsure = false,
                Err(failure) => {
                    state.unsure = !failure.has_no_effect();
                    return Err(failure);
                }
            }
            // The server may remove a lock's node, being empty, before the place is made.
            match self.generation.session.create_lock(&self.place.lock).await {
                Err(Failure::NoNode) => {
                    self.generation.session.create_folder(self.store.names.root()).await?
                }
                made => made?,
            }
        }
        Err(Failure::NoNode)
    }

    /// Finds the place of an attempt that was not answered. If there are several, the first one of
    /// this session counts, and the others are removed.
    pub(super) async fn find_own(&self, state: &mut State) -> Outcome<()> {
        let lock = &self.place.lock;
        let queue = match self.generation.look_now(lock).await {
            Ok(look) => look.queue,
            Err(Failure::NoNode) => Vec::new(),
            Err(failure) => return Err(failure),
        };
        let mut found: Option<Own> = None;
        for contender in queue.iter().filter(|contender| contender.owner == Some(self.request.claim.owner)) {
            let path = self.path_of(contender);
            let node = match self.generation.session.read(&path).await {
                Err(Failure::NoNode) => continue,
                node => node?,
            };
            if found.is_none() && node.session == self.generation.session.id() {
                found = Some(Own { path, czxid: node.czxid, version: Some(node.version) });
            } else if let Err(failure) = self.generation.session.delete(&path, None).await
                && !matches!(failure, Failure::NoNode)
            {
                return Err(failure);
            }
        }
        let is_other = |own: &Own| state.own.as_ref().is_none_or(|before| before.path != own.path);
        if found.as_ref().is_none_or(is_other) {
            state.forget();
        }
        state.own = found;
        state.unsure = false;
        Ok(())
    }

    /// Writes the own node, which proves that it is still there; `None` if it is not.
    pub(super) async fn confirm(&self, state: &mut State) -> Outcome<Option<Instant>> {
        let confirmed = write(self.generation, state).await?;
        if confirmed.is_none() {
            state.forget();
        }
        Ok(confirmed)
    }

    pub(super) async fn remove(&self, state: &mut State) -> Outcome<()> {
        remove(self.generation, self.place, state).await
    }
}

/// Removes a place's node, now or in the background.
pub(crate) async fn remove(generation: &Generation, place: &Place, state: &mut State) -> Outcome<()> {
    let Some(own) = state.own.clone() else { return Ok(()) };
    // Whatever becomes of this call, the place is not kept.
    state.leaving = true;
    generation.places.keep_until(place, generation.clock.now());
    match generation.session.delete(&own.path, None).await {
        Ok(()) | Err(Failure::NoNode) => {
            state.forget();
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Writes a place's node and says when that left; `None` if the node is gone.
pub(crate) async fn write(generation: &Generation, state: &mut State) -> Outcome<Option<Instant>> {
    for _ in 0..ROUNDS {
        let Some(own) = &mut state.own else { return Ok(None) };
        let version = match own.version {
            Some(version) => version,
            None => match generation.session.read(&own.path).await {
                Ok(node) => node.version,
                Err(Failure::NoNode) => return Ok(None),
                Err(failure) => return Err(failure),
            },
        };
        own.version = None;
        match generation.session.write(&own.path, &state.data, version).await {
            Ok((written, sent)) => {
                own.version = Some(written.version);
                return Ok(Some(sent));
            }
            Err(Failure::NoNode) => return Ok(None),
            // An earlier write was carried out whose answer was lost.
            Err(Failure::OtherVersion) => {}
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::Unknown(None))
}
