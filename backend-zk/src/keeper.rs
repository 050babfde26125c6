//! Keeps a session alive, and clears up what nobody claims any more.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::Instant;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::generation::Generation;
use crate::places::Place;
use crate::release;
use crate::session::{End, Failure};

/// Timers run on a clock that stops while the machine is suspended; look at the real one this often.
const CLOCK_CHECK: Duration = Duration::from_millis(500);
/// A place that could not be given up is tried again after this.
const AGAIN: Duration = Duration::from_millis(250);

/// Keeps a session alive, and clears up what nobody claims any more, until the session is over or
/// stopped with nothing held in it.
pub(crate) async fn keep(generation: Arc<Generation>) {
    let kept = Kept(generation);
    let generation = &*kept.0;
    let mut stopped = generation.stopped();
    let mut drive = pin!(generation.session.drive());
    let mut jobs = FuturesUnordered::new();
    let mut is_beating = false;
    loop {
        let now = generation.clock.now();
        let (due, next) = generation.places.due(now);
        for place in due {
            jobs.push(job(generation, Some(place)));
        }
        let beat_at = generation.session.beats().latest().plus(generation.session.beats().every());
        if !is_beating && beat_at <= now {
            is_beating = true;
            jobs.push(job(generation, None));
        }
        let is_stopped = *stopped.borrow_and_update();
        if is_stopped && clear(generation) {
            generation.finish(End::Closed);
            return;
        }
        let beat_at = if is_beating { Instant::FAR } else { beat_at };
        let most = if is_stopped { AGAIN } else { CLOCK_CHECK };
        let pause = next.min(beat_at).since(now).min(most);
        generation.places.plan(now.plus(pause));
        tokio::select! {
            end = &mut drive => return generation.finish(end),
            Some(done) = jobs.next(), if !jobs.is_empty() => match done {
                Done::Beat => is_beating = false,
                Done::Place => {}
                Done::Hopeless => return generation.finish(End::Closed),
            },
            () = generation.places.sooner.notified() => {}
            _ = stopped.changed(), if !is_stopped => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// However the task ends, also together with its runtime, whoever holds or waits is told.
struct Kept(Arc<Generation>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.finish(End::Closed);
    }
}

enum Done {
    Beat,
    Place,
    /// A place can't be given up but with the session.
    Hopeless,
}

async fn job(generation: &Generation, place: Option<Arc<Place>>) -> Done {
    let Some(place) = place else {
        let failed = generation.session.beat(generation.names.root()).await.is_err();
        if failed {
            tokio::time::sleep(generation.session.beats().every() / 4).await;
        }
        return Done::Beat;
    };
    match release::give_up(generation, &place).await {
        Ok(()) => Done::Place,
        Err(Failure::Refused(_)) => Done::Hopeless,
        Err(_) => {
            generation.places.again(&place, generation.clock.now().plus(AGAIN));
            Done::Place
        }
    }
}

/// Has all places of a stopped session given up but those that are held; true if none is left.
fn clear(generation: &Generation) -> bool {
    for place in generation.places.all() {
        if let Ok(mut state) = place.state.try_lock()
            && state.token.is_none()
            && !state.leaving
        {
            state.leaving = true;
            generation.places.keep_until(&place, generation.clock.now());
        }
    }
    generation.places.is_empty()
}
