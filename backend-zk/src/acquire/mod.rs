//! One attempt at a lock.

mod own;

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Effect, Error, ErrorKind, Instant, Lease, LockRequest, Mode, Result, TryLock};

use futures_util::future::join;

use crate::floor::Floor;
use crate::generation::{Generation, Look};
use crate::holder;
use crate::names::Contender;
use crate::places::{Place, State};
use crate::record::Record;
use crate::session::{Failure, Node, Outcome};
use crate::store::Store;
use crate::waiting::{self, Watched, Watching};

pub(crate) use own::{remove, write};

/// How often an attempt begins anew because somebody removes nodes below it.
const ROUNDS: usize = 8;
/// A look at the queue that somebody took for the attempt serves it for so long.
const LOOK_LASTS: Duration = Duration::from_millis(500);
/// A waiter keeps its place for at least this long without a sign of life.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// Takes the lock if nobody stands in front, and if not finds out who has it: two round trips.
///
/// The place is made first and the queue looked at afterwards, which shows everybody in front. A
/// claim that queues keeps its place; another one's is removed again.
pub(crate) async fn try_lock(store: &Arc<Store>, request: &LockRequest, ttl: Duration) -> Result<TryLock> {
    refuse_other_modes(request)?;
    let generation = store.generation().await?;
    let lock = store.names.lock(&request.claim.key);
    loop {
        let until = kept_until(store.clock.now(), request);
        let place = generation.places.enter(&request.claim, &lock, until);
        let mut state = place.state.lock().await;
        if state.over {
            if generation.ended().is_some() {
                return Err(over(&generation).into());
            }
            continue;
        }
        let ttl = ttl.min(generation.longest_ttl());
        let attempt = Attempt { store, generation: &generation, place: &place, request, ttl };
        let outcome = attempt.run(&mut state).await;
        if state.own.is_none() && !state.unsure && !state.over {
            generation.places.remove(&place, &mut state);
        }
        return Ok(outcome?);
    }
}

pub(crate) fn refuse_other_modes(request: &LockRequest) -> Result<()> {
    match request.mode {
        Mode::Exclusive => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, "the zk backend has exclusive locks only")
            .with_effect(Effect::None)),
    }
}

/// Until when a place is kept of which nothing more is heard.
pub(crate) fn kept_until(now: Instant, request: &LockRequest) -> Instant {
    now.plus(request.ttl.max(LEAST_PATIENCE))
}

/// What the node of a place says.
pub(crate) fn describe(state: &mut State, request: &LockRequest, ttl: Duration) {
    state.ttl = state.ttl.max(ttl);
    state.data = Record { ttl: state.ttl, metadata: request.metadata.clone() }.encode();
}

/// The grant of a place whose node was made or written by a request that left at `sent`.
pub(crate) fn granted(
    generation: &Generation,
    place: &Place,
    state: &State,
    request: &LockRequest,
    ttl: Duration,
    sent: Instant,
) -> TryLock {
    let Some(token) = state.token else { return TryLock::Busy(Busy::unknown()) };
    generation.places.keep_until(place, sent.plus(state.ttl));
    let mut lease = Lease::granted(request, token, ttl, sent);
    lease.valid_until = generation.valid_until(request.margin, ttl, sent);
    TryLock::Acquired(lease)
}

fn over(generation: &Generation) -> Failure {
    generation.ended().map_or(Failure::Unsent, Failure::Over)
}

struct Attempt<'a> {
    store: &'a Store,
    generation: &'a Arc<Generation>,
    place: &'a Place,
    request: &'a LockRequest,
    ttl: Duration,
}

/// Where a place stands in its queue.
enum Standing<'a> {
    Nowhere,
    First,
    /// With so many in front.
    Behind {
        at: usize,
        first: &'a Contender,
        ahead: &'a Contender,
    },
}

impl Attempt<'_> {
    async fn run(&self, state: &mut State) -> Outcome<TryLock> {
        state.leaving = false;
        describe(state, self.request, self.ttl);
        for _ in 0..ROUNDS {
            if state.unsure {
                // A look from before may not show what is found.
                self.place.signal.lower();
                self.find_own(state).await?;
            }
            let made = match &state.own {
                None => Some(self.create(state).await?),
                Some(_) => None,
            };
            if state.token.is_some() {
                match self.confirm(state).await? {
                    Some(sent) => return Ok(self.granted(state, sent)),
                    None => continue,
                }
            }
            let look = match self.look(state, made.is_some()).await {
                Err(Failure::NoNode) => {
                    state.forget();
                    continue;
                }
                look => look?,
            };
            if let Some(outcome) = self.judge(state, &look, made).await? {
                return Ok(outcome);
            }
        }
        Err(Failure::NoNode)
    }

    /// The queue as it is now. Whoever just made its place, or was told of a change, sees that anyway;
    /// and whoever is far behind need not see the latest. Whoever was told because its place is the first
    /// need not look again: it stays so, or the write that confirms it fails.
    async fn look(&self, state: &State, is_fresh: bool) -> Outcome<Look> {
        let told = self.place.signal.take_look(self.store.clock.now(), LOOK_LASTS);
        if let Some(look) = told.filter(|_| !is_fresh) {
            return Ok(look);
        }
        let is_far = state.watcher.as_ref().is_some_and(Watching::watches_a_waiter);
        if is_fresh || is_far || self.place.signal.is_up() {
            return self.generation.look(&self.place.lock).await;
        }
        self.generation.look_now(&self.place.lock).await
    }

    /// What the queue means for the place; `None` if it has changed since.
    async fn judge(&self, state: &mut State, look: &Look, made: Option<Instant>) -> Outcome<Option<TryLock>> {
        let Some(own) = &state.own else { return Ok(None) };
        let is_own = |contender: &Contender| {
            own.path.strip_prefix(&self.place.lock).is_some_and(|name| name[1..] == contender.name)
        };
        let owner = Some(self.request.claim.owner);
        if look.queue.iter().any(|contender| contender.owner == owner && !is_own(contender)) {
            // Of an attempt that was not answered, or of a session before.
            state.unsure = true;
            return Ok(None);
        }
        let standing = match look.queue.iter().position(is_own) {
            None => Standing::Nowhere,
            Some(0) => Standing::First,
            Some(at) => Standing::Behind { at, first: &look.queue[0], ahead: &look.queue[at - 1] },
        };
        self.note_others(&standing, look.queue.len());
        match standing {
            Standing::Nowhere => {
                state.forget();
                Ok(None)
            }
            Standing::First => {
                // A node that was just made is its own confirmation.
                let sent = match made {
                    Some(sent) => sent,
                    None => match self.confirm(state).await? {
                        Some(sent) => sent,
                        None => return Ok(None),
                    },
                };
                state.token = state.own.as_ref().and_then(|own| look.floor.token(own.czxid));
                state.stop_watching();
                self.store.silences.forget(&self.place.lock);
                Ok(Some(self.granted(state, sent)))
            }
            Standing::Behind { at, first, ahead } if self.request.queue => {
                self.wait(state, look, at, first, ahead).await.map(Some)
            }
            Standing::Behind { at, first, .. } => self.go_away(state, &look.floor, first, at == 1).await,
        }
    }

    /// Leaves the place where it is, and has the queue watched for it.
    async fn wait(
        &self,
        state: &mut State,
        look: &Look,
        at: usize,
        first: &Contender,
        ahead: &Contender,
    ) -> Outcome<TryLock> {
        if state.busy.cursor != waiting::cursor(first) {
            state.busy = match self.generation.session.read(&self.path_of(first)).await {
                Ok(node) => busy(first, &node, &look.floor),
                Err(Failure::NoNode) => Busy::unknown(),
                Err(failure) => return Err(failure),
            };
        }
        self.generation.places.keep_until(self.place, kept_until(self.generation.clock.now(), self.request));
        state.busy.waiter_ahead = at > 1;
        let watched = Watched { ahead: ahead.name.clone(), is_holder: at == 1 };
        if state.watcher.as_ref().is_none_or(|watcher| !watcher.watches(&watched))
            && let Some(own) = &state.own
        {
            let own = own.path.clone();
            state.stop_watching();
            self.place.signal.lower();
            let pace = (state.ttl, at);
            state.watcher = Some(waiting::stand(self.generation, self.place, &own, watched, pace));
        }
        Ok(TryLock::Busy(state.busy.clone()))
    }

    /// Removes the place of a plain try; `None` if that may have been granted after all.
    async fn go_away(
        &self,
        state: &mut State,
        floor: &Floor,
        first: &Contender,
        is_second: bool,
    ) -> Outcome<Option<TryLock>> {
        let (lock, path) = (&self.place.lock, self.path_of(first));
        let suspects = is_second && self.store.silences.of(lock, &first.name).is_some();
        if suspects {
            match self.generation.session.read(&path).await {
                Ok(node) if self.take_over(first, &path, &node).await? => return Ok(None),
                Ok(node) => {
                    self.remove(state).await?;
                    return Ok(Some(TryLock::Busy(busy(first, &node, floor))));
                }
                Err(Failure::NoNode) => return Ok(None),
                Err(failure) => return Err(failure),
            }
        }
        let (node, removed) = join(self.generation.session.read(&path), self.remove(state)).await;
        removed?;
        let Ok(node) = node else { return Ok(Some(TryLock::Busy(Busy::unknown()))) };
        self.store.silences.seen(lock, &first.name, node.version, self.store.clock.now());
        Ok(Some(TryLock::Busy(busy(first, &node, floor))))
    }

    /// Removes a holder's node if it has been silent for longer than its ttl; true if that is gone.
    async fn take_over(&self, first: &Contender, path: &str, node: &Node) -> Outcome<bool> {
        let now = self.store.clock.now();
        let since = self.store.silences.seen(&self.place.lock, &first.name, node.version, now);
        match Record::decode(&node.data) {
            Some(record) if now.since(since) >= record.patience() => {}
            _ => return Ok(false),
        }
        match self.generation.session.delete(path, Some(node.version)).await {
            Ok(()) | Err(Failure::NoNode) => Ok(true),
            Err(Failure::OtherVersion) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    fn granted(&self, state: &State, sent: Instant) -> TryLock {
        granted(self.generation, self.place, state, self.request, self.ttl, sent)
    }

    /// Whether others than the holder stand in the queue. Whoever tries and goes is none of them.
    fn note_others(&self, standing: &Standing<'_>, len: usize) {
        let waiters = match standing {
            Standing::Nowhere => return,
            Standing::Behind { .. } if !self.request.queue => len - 2,
            _ => len - 1,
        };
        self.store.contended.note(&self.request.claim.key, waiters > 0);
    }

    fn path_of(&self, contender: &Contender) -> String {
        format!("{}/{}", self.place.lock, contender.name)
    }
}

fn busy(first: &Contender, node: &Node, floor: &Floor) -> Busy {
    let mut busy = Busy::unknown().cursor(waiting::cursor(first));
    busy.holder = holder::of(first, node, floor);
    busy
}
