//! One connection of a session.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use distlock_core::Instant;
use tokio::sync::{Mutex, watch};
use tokio::task::AbortHandle;
use zookeeper_client::{Client, SessionState, StateWatcher};

use super::{Condition, End};

/// One connection of a session: the client crate's handle and the task behind it.
///
/// When the last handle is dropped, the task closes the session. When the link is cut, or was never
/// the session's, the task is gone first, and the session goes on.
pub(crate) struct Link {
    pub(super) client: Client,
    state: Mutex<StateWatcher>,
    /// None of the application's client.
    task: Option<AbortHandle>,
    is_cut: watch::Sender<bool>,
    /// Whether it became the session's connection.
    is_adopted: AtomicBool,
    /// Since when a request waits for an answer and none has come; 0 if none waits.
    waits_since: AtomicU64,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("session", &self.client.session_id()).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(client: Client, task: Option<AbortHandle>) -> Self {
        Self {
            state: Mutex::new(client.state_watcher()),
            client,
            task,
            is_cut: watch::Sender::new(false),
            is_adopted: AtomicBool::new(false),
            waits_since: AtomicU64::new(0),
        }
    }

    pub(super) fn condition(&self) -> Condition {
        condition(self.client.state())
    }

    /// Waits for a change.
    pub(super) async fn changed(&self) -> Condition {
        match self.condition() {
            Condition::Connected => condition(self.state.lock().await.changed().await),
            // Told at once, since it may have come before anybody asked.
            other if self.task.is_some() => other,
            over @ Condition::Over(_) => over,
            Condition::Disconnected => condition(self.state.lock().await.changed().await),
        }
    }

    /// A request leaves.
    pub(super) fn asked(&self, now: Instant) {
        let _ = self.waits_since.compare_exchange(0, now.as_nanos(), Ordering::AcqRel, Ordering::Acquire);
    }

    /// An answer came, to whichever request.
    pub(super) fn answered(&self) {
        self.waits_since.store(0, Ordering::Release);
    }

    /// For how long the servers have left requests without any answer. A frozen server and a broken
    /// network look like that, and the client crate waits for two fifths of the session's time-out.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        match self.waits_since.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            since => now.since(Instant::from_nanos(since)),
        }
    }

    /// It is the session's from now on.
    pub(super) fn adopt(self) -> Arc<Self> {
        self.is_adopted.store(true, Ordering::Release);
        Arc::new(self)
    }

    /// Ends the connection, but not the session.
    pub(super) fn cut(&self) {
        // Watches first: they can't do without the task.
        self.is_cut.send_replace(true);
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    /// Sees the cut.
    pub(super) fn cuts(&self) -> watch::Receiver<bool> {
        self.is_cut.subscribe()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if !*self.is_adopted.get_mut() {
            self.cut();
        }
    }
}

fn condition(state: SessionState) -> Condition {
    match state {
        SessionState::SyncConnected => Condition::Connected,
        SessionState::Expired => Condition::Over(End::Expired),
        SessionState::AuthFailed => Condition::Over(End::Denied),
        SessionState::Closed => Condition::Over(End::Closed),
        SessionState::Disconnected | SessionState::ConnectedReadOnly => Condition::Disconnected,
    }
}
