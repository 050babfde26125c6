//! What sessions sleep on, as they see it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::MySql;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::session;
use super::watcher::Watcher;
use crate::server::{Links, Template};

/// Holds locks that sessions wait for, on one connection of its own, and gives each back when its session is to wake.
///
/// This connection itself never waits for a lock, so there is no circle that the server could break.
pub(crate) struct Watching {
    pub(super) links: Arc<Links<MySql>>,
    /// What sessions do meanwhile.
    pub(super) slice: Template,
    /// No other client's locks have this in their names.
    client: u64,
    next: AtomicU64,
    state: Mutex<State>,
}

enum State {
    /// Nothing is held.
    Idle,
    Working(UnboundedSender<Wish>),
    Closed,
}

/// A lock that the connection holds. Dropping it gives the lock back.
pub(super) struct Hold {
    name: String,
    wishes: UnboundedSender<Wish>,
}

/// What the task with the connection is to do.
pub(super) enum Wish {
    /// To hold this. The answer is whether it is.
    Hold(String, oneshot::Sender<bool>),
    Free(String),
    /// To run this statement. The answer is its first column.
    Ask(String, oneshot::Sender<Option<i64>>),
}

impl Watching {
    pub(super) fn new(links: Arc<Links<MySql>>, slice: Template) -> Self {
        let (client, next) = (fastrand::u64(..), AtomicU64::new(0));
        Self { links, slice, client, next, state: Mutex::new(State::Idle) }
    }

    /// A lock that nobody has had before; `None` if there is no connection for it.
    ///
    /// May be dropped at any point.
    pub(super) async fn hold(&self) -> Option<Hold> {
        // The task that holds them may just be about to end.
        for _ in 0..2 {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("distlock_wake_{:016x}_{number:x}", self.client);
            let hold = Hold { name: name.clone(), wishes: self.wishes()? };
            let (answer, answered) = oneshot::channel();
            let _ = hold.wishes.send(Wish::Hold(name, answer));
            if let Ok(is_held) = answered.await {
                return is_held.then_some(hold);
            }
        }
        None
    }

    /// The session that holds the lock of this name, 0 if there is none; `None` if the server does not say.
    pub(super) async fn holder(&self, name: &[u8]) -> Option<i64> {
        let (answer, answered) = oneshot::channel();
        self.wishes()?.send(Wish::Ask(session::holder(name), answer)).ok()?;
        answered.await.ok().flatten()
    }

    /// Nothing is held from now on; what is held will be until it is given back.
    pub(super) fn close(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Closed;
    }

    /// Where to send wishes. `None` after the close.
    fn wishes(&self) -> Option<UnboundedSender<Wish>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Working(wishes) if !wishes.is_closed() => return Some(wishes.clone()),
            State::Closed => return None,
            _ => {}
        }
        let (wishes, receiver) = unbounded_channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "one task has the connection; it ends when nobody sleeps, and with the backend"
        )]
        tokio::spawn(Watcher::new(Arc::clone(&self.links)).work(receiver));
        *state = State::Working(wishes.clone());
        Some(wishes)
    }
}

impl Hold {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.wishes.send(Wish::Free(std::mem::take(&mut self.name)));
    }
}
