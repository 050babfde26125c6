//! Waking waiters when a lock is given back.
//!
//! One connection a backend listens to one channel, whoever waits for whatever; the message names
//! the lock, and the one whose turn it is if there is a queue. A release is announced only if somebody
//! queues or left a mark, so nobody pays for listeners that are not there.

mod hub;
mod listener;
mod message;
mod places;
mod successor;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use distlock_core::{Busy, Claim, Cursor, Error, ErrorKind, Lease, LockRequest, OwnerId, Result};
use tokio::sync::Notify;

use crate::error::CLOSED;
use crate::reply::number;
use crate::script;
use crate::store::Store;
use hub::{Hub, Joined};
pub(crate) use successor::Successor;

/// Tells the two kinds of cursors apart: tokens are below it.
const IS_POSITION: u64 = 1 << 63;

/// All who wait on one backend, and the one task that listens for them.
#[derive(Debug)]
pub(crate) struct Waiting {
    store: Arc<Store>,
    hub: Hub,
    is_listening: AtomicBool,
    /// The listener has something to look after.
    attention: Notify,
}

/// A busy answer's cursor: where the messages stood when the attempt was sent, if that left a mark;
/// else the last token, for the look that still has to be taken.
pub(crate) const fn cursor(position: Option<u64>, token: u64) -> Cursor {
    match position {
        Some(position) => Cursor(position | IS_POSITION),
        None => Cursor(token),
    }
}

impl Waiting {
    pub(crate) fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            hub: Hub::default(),
            is_listening: AtomicBool::new(false),
            attention: Notify::new(),
        })
    }

    /// Where the messages stand, if this attempt is one of a waiter and messages come: then the
    /// attempt leaves a mark, and a message after this position can't be missed.
    pub(crate) fn position_of(&self, request: &LockRequest) -> Option<u64> {
        self.hub.position_of(request.claim.owner, request.queue)
    }

    /// The attempt left the request in the store's queue; a grant would last for `ttl`.
    pub(crate) fn queues(&self, request: &LockRequest, ttl: Duration) {
        self.hub.queues(request, ttl);
    }

    /// The claim does not queue any more.
    pub(crate) fn leaves_queue(&self, owner: OwnerId) {
        self.hub.leaves_queue(owner);
    }

    /// The grant that came with the release of another of this backend, once.
    pub(crate) fn pick_up(&self, owner: OwnerId) -> Option<Lease> {
        self.hub.pick_up(owner)
    }

    /// Who may get the lock in the step in which `claim` gives it back.
    pub(crate) fn successor(&self, claim: &Claim) -> Option<Successor<'_>> {
        self.hub.successor(&claim.key, claim.owner)
    }

    /// Resolves when `claim` had better try again.
    pub(crate) async fn watch(self: &Arc<Self>, claim: &Claim, busy: &Busy) -> Result<()> {
        let closed = || Error::new(ErrorKind::Shutdown, CLOSED);
        let position = (busy.cursor.0 & IS_POSITION != 0).then_some(busy.cursor.0 & !IS_POSITION);
        let watcher = match self.hub.join(claim, position) {
            Joined::Closed => return Err(closed()),
            Joined::Outdated => return Ok(()),
            Joined::Waits(watcher) => watcher,
        };
        self.keep_listening();
        let look = async {
            if position.is_none() {
                self.hub.connected().await;
                if self.second_look(claim, busy.cursor).await? {
                    return Ok(());
                }
            }
            std::future::pending().await
        };
        // Woken while it still prepares to wait, it must not wait for what does not come any more.
        tokio::select! {
            goes_on = watcher.woken() => goes_on.then_some(()).ok_or_else(closed),
            looked = look => looked,
        }
    }

    /// Wakes everybody for good.
    pub(crate) fn close(&self) {
        self.hub.close();
        self.attention.notify_one();
    }

    /// Leaves a mark unless the claim stands in the queue; true if there is reason to try again.
    async fn second_look(&self, claim: &Claim, seen: Cursor) -> Result<bool> {
        let (seen, owner) = (seen.0.to_string(), claim.owner.to_string());
        let record = self.store.names.record(&claim.key);
        let answer = self.store.run(&script::WATCH, &[record], &[seen.as_bytes(), owner.as_bytes()]).await?;
        Ok(number(&answer.value)? == 1)
    }

    /// Starts the listener unless it runs. It ends when nobody has waited for a while.
    fn keep_listening(self: &Arc<Self>) {
        let Some(mut listening) = Listening::begin(self) else { return };
        #[expect(
            clippy::disallowed_methods,
            reason = "one task listens for all waiters of the backend; it ends some time after the last of them, or with the backend"
        )]
        tokio::spawn(async move {
            loop {
                listener::run(&listening.0).await;
                let waiting = Arc::clone(&listening.0);
                drop(listening);
                // Somebody may have come between the last look and the end.
                if waiting.hub.is_idle() {
                    return;
                }
                match Listening::begin(&waiting) {
                    Some(again) => listening = again,
                    None => return,
                }
            }
        });
    }
}

/// The listener's right to run. It ends with its task, also where a runtime drops that midway.
struct Listening(Arc<Waiting>);

impl Listening {
    fn begin(waiting: &Arc<Waiting>) -> Option<Self> {
        let is_free = !waiting.is_listening.swap(true, Ordering::AcqRel);
        is_free.then(|| Self(Arc::clone(waiting)))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.hub.disconnected();
        self.0.is_listening.store(false, Ordering::Release);
    }
}
