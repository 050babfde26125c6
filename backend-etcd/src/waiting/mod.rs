//! Waking waiters when a record is deleted.
//!
//! One watch a client covers the whole namespace, whoever waits for whatever. A watch for each waiter
//! would be more work for the server, and one that starts at a revision of the past is served by it
//! only ten times a second.

mod deletions;
mod watcher;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use distlock_core::{Busy, Claim, Error, ErrorKind, Lease, LockKey, OwnerId, Result, Waiters};
use tokio::sync::{Notify, watch};

use crate::error::CLOSED;
use crate::queue;
use crate::store::Store;
use deletions::Deletions;

/// All who wait on one backend, and the one task that watches for them.
#[derive(Debug)]
pub(crate) struct Waiting {
    store: Arc<Store>,
    waiters: Waiters<Note>,
    // Locked before the waiters' own lock, never after it.
    deletions: Mutex<Deletions>,
    is_heard: watch::Sender<bool>,
    is_watching: AtomicBool,
    /// Whether writes are heard of, too.
    hears_writes: AtomicBool,
    /// The watcher has something to look after.
    attention: Notify,
}

/// What is noted of a waiter.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// Whose deletion it waits for, beside that of its own record.
    before: Option<OwnerId>,
    /// The revision of its last look.
    seen: i64,
}

impl Waiting {
    pub(crate) fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            waiters: Waiters::new(),
            deletions: Mutex::default(),
            is_heard: watch::Sender::new(false),
            is_watching: AtomicBool::new(false),
            hears_writes: AtomicBool::new(false),
            attention: Notify::new(),
        })
    }

    /// Resolves when `claim` had better try again.
    pub(crate) async fn watch_release(self: &Arc<Self>, claim: &Claim, busy: &Busy) -> Result<()> {
        // Who has no record can only get the lock when its holder has gone.
        let standing = self.store.standings.of(claim);
        let before = match &standing {
            Some(standing) => standing.before,
            None => busy.holder.as_ref().map(|holder| holder.owner),
        };
        let created = standing.map(|standing| standing.created);
        // A watch that opens late has missed something, but hardly ever what this one waits for.
        let is_gone = async || {
            let Ok(view) = queue::look(&self.store, claim, created).await else { return Ok(true) };
            let first = view.first.map(|first| first.name);
            let obstacle = if created.is_some() { view.last } else { first };
            let obstacle = obstacle.and_then(|name| self.store.names.read(&name)?.1);
            Ok(obstacle != before || view.own.map(|own| own.created) != created)
        };
        let note = Note { before, seen: busy.cursor.0.cast_signed() };
        self.wait(claim, note, is_gone).await
    }

    /// Resolves when the lease's record may be gone.
    pub(crate) async fn watch_loss(self: &Arc<Self>, lease: &Lease) -> Result<()> {
        let claim = &lease.claim;
        let Some(created) = self.store.standings.of(claim).map(|standing| standing.created) else {
            return Ok(());
        };
        let is_gone = async || {
            let view = queue::look(&self.store, claim, Some(created)).await?;
            Ok(view.own.is_none_or(|own| own.created != created))
        };
        self.wait(claim, Note { before: None, seen: created }, is_gone).await
    }

    /// Waits for a deletion that the note names. If not all is known that happened since its revision,
    /// `look` says whether there is reason to wait no longer.
    async fn wait(
        self: &Arc<Self>,
        claim: &Claim,
        note: Note,
        look: impl AsyncFnOnce() -> Result<bool>,
    ) -> Result<()> {
        let closed = || Error::new(ErrorKind::Shutdown, CLOSED);
        let (mut waiter, is_known) = {
            // Held until the waiter has its place, so that no deletion comes between the two.
            let deletions = self.deletions();
            let concerns = [Some(claim.owner), note.before].into_iter().flatten();
            if concerns.into_iter().any(|owner| deletions.deleted_after(owner, note.seen)) {
                return Ok(());
            }
            (self.waiters.join(claim, note).ok_or_else(closed)?, deletions.is_known_after(note.seen))
        };
        self.keep_watching();
        if self.needs_writes() {
            self.attention.notify_one();
        }
        let look = async {
            if !is_known {
                self.heard().await;
                let is_known = self.deletions().is_known_after(note.seen);
                if !is_known && look().await? {
                    return Ok(());
                }
            }
            std::future::pending().await
        };
        // Woken while it still prepares to wait, it must not wait for what does not come any more.
        tokio::select! {
            goes_on = waiter.woken() => goes_on.then_some(()).ok_or_else(closed),
            looked = look => looked,
        }
    }

    /// Wakes everybody for good.
    pub(crate) fn close(&self) {
        self.waiters.close();
        self.attention.notify_one();
    }

    /// A record was deleted; `owner` is not known of one that is not ours.
    fn deleted(&self, key: &LockKey, owner: Option<OwnerId>, revision: i64) {
        let mut deletions = self.deletions();
        let Some(owner) = owner else {
            drop(deletions);
            self.waiters.wake(key, |_, _| true);
            return;
        };
        deletions.add(owner, revision);
        self.waiters.wake(key, |waiter, note| waiter == owner || note.before == Some(owner));
    }

    /// All that happens after this revision is heard from now on.
    fn begins(&self, revision: i64) {
        self.deletions().begin(revision);
        self.is_heard.send_replace(true);
    }

    /// Something may have been missed: everybody had better look.
    fn ends(&self) {
        self.is_heard.send_replace(false);
        self.deletions().end();
        self.waiters.wake_all();
    }

    /// Resolves when deletions are heard of.
    async fn heard(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_heard.subscribe().wait_for(|is_heard| *is_heard).await;
    }

    /// Whether a record is counted by its writes, and nobody hears of them.
    fn needs_writes(&self) -> bool {
        !self.hears_writes.load(Ordering::Acquire) && self.store.silences.is_counting()
    }

    fn is_idle(&self) -> bool {
        self.waiters.is_closed() || self.waiters.is_empty()
    }

    fn deletions(&self) -> MutexGuard<'_, Deletions> {
        // Every change is complete before anything can panic.
        self.deletions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the watcher unless it runs. It ends when nobody has waited for a while.
    fn keep_watching(self: &Arc<Self>) {
        let Some(mut watching) = Watching::begin(self) else { return };
        #[expect(
            clippy::disallowed_methods,
            reason = "one task watches for all waiters of the backend; it ends some time after the last of them, or with the backend"
        )]
        tokio::spawn(async move {
            loop {
                watcher::run(&watching.0).await;
                let waiting = Arc::clone(&watching.0);
                drop(watching);
                // Somebody may have come between the last look and the end.
                if waiting.is_idle() {
                    return;
                }
                match Watching::begin(&waiting) {
                    Some(again) => watching = again,
                    None => return,
                }
            }
        });
    }
}

/// The watcher's right to run. It ends with its task, also where a runtime drops that midway.
struct Watching(Arc<Waiting>);

impl Watching {
    fn begin(waiting: &Arc<Waiting>) -> Option<Self> {
        let is_free = !waiting.is_watching.swap(true, Ordering::AcqRel);
        is_free.then(|| Self(Arc::clone(waiting)))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.ends();
        self.0.is_watching.store(false, Ordering::Release);
    }
}
