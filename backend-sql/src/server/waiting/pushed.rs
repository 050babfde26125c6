//! Waiting where the server tells of releases.
//!
//! One connection a backend listens, whoever waits for whatever; the message names the lock. A release
//! is announced only if somebody left a mark, so nobody pays for listeners that are not there.

use std::sync::Arc;

use distlock_core::{Busy, Claim, LockRequest, Result, Running};
use tokio::sync::Notify;

use super::hub::{Hub, Joined};
use super::{IS_POSITION, closed, listener};
use crate::server::connections::Lane;
use crate::server::store::Store;

/// All who wait on one backend, and the one task that listens for them.
#[derive(Debug)]
pub(crate) struct Pushed {
    pub(super) store: Arc<Store>,
    pub(super) hub: Hub,
    listening: Running,
    /// The listener has something to look after.
    pub(super) attention: Notify,
}

impl Pushed {
    pub(super) fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self { store, hub: Hub::default(), listening: Running::default(), attention: Notify::new() })
    }

    pub(super) fn position_of(&self, request: &LockRequest) -> Option<u64> {
        self.hub.position_of(request.claim.owner)
    }

    pub(super) async fn watch(self: &Arc<Self>, claim: &Claim, busy: &Busy) -> Result<()> {
        let position = (busy.cursor.0 & IS_POSITION != 0).then_some(busy.cursor.0 & !IS_POSITION);
        let mut place = match self.hub.join(claim, position) {
            Joined::Closed => return Err(closed()),
            Joined::Outdated => return Ok(()),
            Joined::Waits(place) => place,
        };
        self.keep_listening();
        let look = async {
            if position.is_none() {
                self.hub.connected().await;
                if !self.mark(claim).await? {
                    return Ok(());
                }
            }
            std::future::pending().await
        };
        // Woken while it still prepares to wait, it must not wait for what does not come any more.
        tokio::select! {
            goes_on = place.woken() => goes_on.then_some(()).ok_or_else(closed),
            looked = look => looked,
        }
    }

    pub(super) fn close(&self) {
        self.hub.waiters.close();
        self.attention.notify_one();
    }

    /// Leaves a mark; false if the lock is free.
    async fn mark(&self, claim: &Claim) -> Result<bool> {
        let mark = self.store.sql.mark.with([(&claim.key).into()]);
        Ok(self.store.run(Lane::Attempt, mark).await?.matched > 0)
    }

    /// Starts the listener unless it runs. It ends when nobody has waited for a while.
    fn keep_listening(self: &Arc<Self>) {
        let Some(running) = self.listening.begin() else { return };
        let pushed = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "one task listens for all waiters of the backend; it ends some time after the last of them, or with the backend"
        )]
        tokio::spawn(async move {
            let ends = EndsListening(&pushed);
            listener::run(&pushed).await;
            drop(ends);
            drop(running);
            // Somebody may have come between the last look and the end.
            if !pushed.hub.waiters.is_empty() {
                pushed.keep_listening();
            }
        });
    }
}

/// Tells the waiters that nobody listens, also where a runtime drops the listener midway.
struct EndsListening<'a>(&'a Pushed);

impl Drop for EndsListening<'_> {
    fn drop(&mut self) {
        self.0.hub.disconnected();
    }
}
