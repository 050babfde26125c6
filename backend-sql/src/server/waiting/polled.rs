//! Waiting where the server can't tell of releases: one look now and then at all locks that are waited
//! for, whoever waits for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Claim, LockKey, Result, Running, Waiters, jittered};
use tokio::sync::Notify;

use super::closed;
use crate::hex::push_hex;
use crate::server::connections::Lane;
use crate::server::store::Store;

/// Shortest pause between two looks, whatever gives reason for one.
const LEAST: Duration = Duration::from_millis(5);

/// Whoever comes to wait has a look taken after this part of `poll`, not after all of it.
const FIRST: u32 = 4;

/// All who wait on one backend, and the one task that looks for them.
#[derive(Debug)]
pub(crate) struct Polled {
    store: Arc<Store>,
    poll: Duration,
    /// With the token of the hold that each was refused for.
    waiters: Waiters<u64>,
    polling: Running,
    look_now: Notify,
    look_soon: Notify,
}

impl Polled {
    pub(super) fn new(store: Arc<Store>, poll: Duration) -> Arc<Self> {
        Arc::new(Self {
            store,
            poll,
            waiters: Waiters::new(),
            polling: Running::default(),
            look_now: Notify::new(),
            look_soon: Notify::new(),
        })
    }

    /// Resolves when the lock was seen free, or held by another than before: who takes and gives it back
    /// fast leaves no time to see it free, and would keep a waiter out that only looks. The first look is
    /// at the lock as it is, so a release before this call is seen as well.
    pub(super) async fn watch(self: &Arc<Self>, claim: &Claim, busy: &Busy) -> Result<()> {
        let mut waiter = self.waiters.join(claim, busy.cursor.0).ok_or_else(closed)?;
        self.look_soon.notify_one();
        self.keep_polling();
        waiter.woken().await.then_some(()).ok_or_else(closed)
    }

    /// Something was released through this backend.
    pub(super) fn changed(&self) {
        if !self.waiters.is_empty() {
            self.look_now.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.waiters.close();
        self.look_now.notify_one();
    }

    /// Starts the poller unless it runs. It ends when nobody waits any more.
    fn keep_polling(self: &Arc<Self>) {
        let Some(running) = self.polling.begin() else { return };
        let polled = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "one task looks for all waiters of the backend; it ends with the last of them"
        )]
        tokio::spawn(async move {
            polled.poll().await;
            drop(running);
            // Somebody may have come between the last look and the end.
            if !polled.waiters.is_empty() {
                polled.keep_polling();
            }
        });
    }

    async fn poll(&self) {
        while !self.waiters.is_empty() {
            // What fails is tried again; waiters try by time as well.
            let _ = self.look().await;
            tokio::time::sleep(LEAST).await;
            let soon = async {
                self.look_soon.notified().await;
                tokio::time::sleep(jittered(self.poll / FIRST).saturating_sub(LEAST)).await;
            };
            tokio::select! {
                () = self.look_now.notified() => {}
                () = soon => {}
                () = tokio::time::sleep(jittered(self.poll).saturating_sub(LEAST)) => {}
            }
        }
    }

    /// Wakes those whose lock nobody holds, or another one than before.
    async fn look(&self) -> Result<()> {
        let keys = self.waiters.keys();
        let answer =
            self.store.run(Lane::Attempt, self.store.sql.held.with([json_list(&keys).into()])).await?;
        let mut held = HashMap::with_capacity(answer.rows.len());
        for row in &answer.rows {
            held.insert(row.maybe_bytes(0)?.unwrap_or_default(), row.int(1)?.cast_unsigned());
        }
        for key in &keys {
            let token = held.get(key.as_bytes());
            self.waiters.wake(key, |_, seen| token != Some(seen));
        }
        Ok(())
    }
}

fn json_list(keys: &[LockKey]) -> String {
    let mut list = String::from("[");
    for (at, key) in keys.iter().enumerate() {
        list.push_str(if at == 0 { "{\"k\":\"" } else { ",{\"k\":\"" });
        push_hex(&mut list, key.as_bytes());
        list.push_str("\"}");
    }
    list.push(']');
    list
}
