//! Waiting in a queue.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Claim, Cursor, Instant, jittered};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::generation::{Generation, Look};
use crate::names::Contender;
use crate::places::Place;
use crate::record::Record;
use crate::session::{Condition, Event, Failure, Watch};
use crate::silence::Silence;
use crate::store::Store;

/// After a failed look, the next one comes within this time.
const AGAIN: Duration = Duration::from_millis(200);
/// So many who wait look whether the holder is silent: the first of them, and the next in case those in
/// front are dead too.
const WARY: usize = 4;

/// What a place waits for: the one in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) ahead: String,
    /// Whether that one holds the lock, so that this place is the first of those who wait.
    pub(crate) is_holder: bool,
}

/// The task that watches a queue for one place. Dropping it ends the task.
#[derive(Debug)]
pub(crate) struct Watching {
    watched: Watched,
    task: AbortHandle,
}

impl Watching {
    /// Whether it watches somebody who waits too.
    pub(crate) const fn watches_a_waiter(&self) -> bool {
        !self.watched.is_holder
    }

    /// Whether it still watches this.
    pub(crate) fn watches(&self, watched: &Watched) -> bool {
        self.watched == *watched && !self.task.is_finished()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How long whoever has so many in front of it waits for the end of the one before it until it looks at
/// the queue, in case that one is dead. That is a look in each ttl for the first of them, and the fewer
/// the longer the queue is.
fn pace(ttl: Duration, at: usize) -> Duration {
    const SLOWEST: usize = 16;
    // Not above SLOWEST.
    ttl * u32::try_from(at.saturating_sub(1).clamp(1, SLOWEST)).unwrap_or(1)
}

/// Watches a queue for one place: only the place in front of it, so that each release wakes one
/// waiter; and, as the first waiter, whether the holder is silent for too long. Those behind look for that
/// too from time to time.
pub(crate) fn stand(
    generation: &Arc<Generation>,
    place: &Place,
    own: &str,
    watched: Watched,
    (ttl, at): (Duration, usize),
) -> Watching {
    let mut watcher = Watcher {
        generation: Arc::clone(generation),
        lock: place.lock.clone(),
        own: own[place.lock.len() + 1..].to_owned(),
        connections: generation.connections(),
        silence: None,
        ttl,
    };
    let (first, signal) = (watched.clone(), Arc::clone(&place.signal));
    #[expect(
        clippy::disallowed_methods,
        reason = "aborted when the place is given up, and ends with the session"
    )]
    let task = tokio::spawn(async move {
        let look = watcher.run(first, jittered(pace(ttl, at))).await;
        signal.raise_for(look);
    });
    Watching { watched, task: task.abort_handle() }
}

struct Watcher {
    generation: Arc<Generation>,
    lock: String,
    own: String,
    connections: watch::Receiver<Condition>,
    silence: Option<Silence>,
    /// The place's own.
    ttl: Duration,
}

impl Watcher {
    /// Ends when the place may have come to the head, or is gone, with the look that showed it.
    async fn run(&mut self, mut watched: Watched, mut longest: Duration) -> Option<(Look, Instant)> {
        loop {
            if watched.is_holder {
                // Whoever waits looks for itself.
                self.watch_holder(&watched.ahead).await;
                return None;
            }
            self.watch_waiter(&watched.ahead, longest).await;
            // One in front has left: was it the last one?
            let (look, now) = self.look().await?;
            let at = match look.queue.iter().position(|contender| contender.name == self.own) {
                None | Some(0) => return Some((look, now)),
                Some(at) => at,
            };
            watched = Watched { ahead: look.queue[at - 1].name.clone(), is_holder: at == 1 };
            longest = jittered(pace(self.ttl, at));
            if (2..=WARY).contains(&at) {
                longest = longest.min(self.outlast(&look.queue[0].name, at).await);
            }
        }
    }

    /// The queue, and an instant before it was looked at; `None` if there is nothing to wait for any more.
    async fn look(&self) -> Option<(Look, Instant)> {
        loop {
            let now = self.generation.clock.now();
            match self.generation.look(&self.lock).await {
                Ok(look) => return Some((look, now)),
                Err(Failure::NoNode | Failure::Over(_)) => return None,
                Err(_) => tokio::time::sleep(jittered(AGAIN)).await,
            }
        }
    }

    /// Waits for the end of a waiter in front, or until it may have become the holder.
    async fn watch_waiter(&mut self, ahead: &str, longest: Duration) {
        match self.generation.session.watch_end(&self.path_of(ahead)).await {
            Ok(watch) => drop(self.event(watch, longest).await),
            Err(Failure::NoNode | Failure::Over(_)) => {}
            Err(_) => tokio::time::sleep(jittered(AGAIN)).await,
        }
    }

    /// Removes the holder if it was silent for longer than its ttl, and those in front of this place
    /// did not do so in half as long again for each of them; says when to look again.
    async fn outlast(&mut self, first: &str, at: usize) -> Duration {
        let path = self.path_of(first);
        let Ok(node) = self.generation.session.read(&path).await else { return self.ttl };
        let now = self.generation.clock.now();
        let silence = Silence::seen(self.silence.take(), first, node.version, now);
        let since = silence.since;
        self.silence = Some(silence);
        let Some(record) = Record::decode(&node.data) else { return Duration::MAX };
        // At most WARY.
        let rank = u32::try_from(at).unwrap_or(u32::MAX);
        let due = since.plus(record.patience().saturating_mul(rank + 1) / 2);
        if now < due {
            return due.since(now);
        }
        match self.generation.session.delete(&path, Some(node.version)).await {
            Ok(()) | Err(Failure::NoNode | Failure::OtherVersion) => Duration::ZERO,
            Err(_) => self.ttl,
        }
    }

    /// Waits for the end of the holder, and brings it about if the holder is silent for too long.
    async fn watch_holder(&mut self, ahead: &str) {
        let path = self.path_of(ahead);
        while let Ok((node, watch)) = self.generation.session.read_and_watch(&path).await {
            let now = self.generation.clock.now();
            let silence = Silence::seen(self.silence.take(), ahead, node.version, now);
            let since = silence.since;
            self.silence = Some(silence);
            let Some(record) = Record::decode(&node.data) else {
                // Another program's lock ends with its session alone.
                let longest = self.generation.session.beats().gap();
                match self.event(watch, longest).await {
                    Some(Event::Changed) => continue,
                    _ => return,
                }
            };
            let due = since.plus(record.patience());
            match self.event(watch, due.since(now)).await {
                Some(Event::Changed) => continue,
                Some(Event::Gone | Event::Unsure) => return,
                None if self.generation.clock.now() < due => continue,
                None => {}
            }
            match self.generation.session.delete(&path, Some(node.version)).await {
                Err(Failure::OtherVersion) => {}
                Err(failure) if failure.has_no_effect() && !matches!(failure, Failure::NoNode) => {
                    tokio::time::sleep(jittered(AGAIN)).await;
                }
                _ => return,
            }
        }
    }

    /// Waits for a watch's event; `None` after `longest`. A new connection may have missed some.
    async fn event(&mut self, mut watch: Watch, longest: Duration) -> Option<Event> {
        tokio::select! {
            event = watch.event() => Some(event),
            _ = self.connections.changed() => Some(Event::Unsure),
            () = tokio::time::sleep(longest) => None,
        }
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.lock)
    }
}

/// Resolves when `claim` had better try again.
pub(crate) async fn watch_release(
    store: &Arc<Store>,
    claim: &Claim,
    busy: &Busy,
) -> distlock_core::Result<()> {
    let generation = store.generation().await?;
    if let Some(place) = generation.places.get(claim) {
        let signal = Arc::clone(&place.signal);
        drop(place);
        tokio::select! {
            () = signal.up() => {}
            () = generation.over() => {}
        }
        return Ok(());
    }
    // It has no place: any change at the head of the queue will do.
    let lock = store.names.lock(&claim.key);
    let first = match generation.look(&lock).await {
        Ok(look) => look.queue.into_iter().next(),
        Err(Failure::NoNode) => None,
        Err(failure) => return Err(failure.into()),
    };
    let Some(first) = first.filter(|first| is_cursor_of(first, busy.cursor)) else { return Ok(()) };
    match generation.session.watch_end(&format!("{lock}/{}", first.name)).await {
        Ok(mut watch) => {
            watch.event().await;
            Ok(())
        }
        Err(Failure::NoNode) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}

/// What a busy answer notes of the head of the queue.
pub(crate) fn cursor(first: &Contender) -> Cursor {
    Cursor(u64::from(first.number) + 1)
}

fn is_cursor_of(first: &Contender, seen: Cursor) -> bool {
    seen == Cursor::default() || seen == cursor(first)
}
