//! Waking waiters when a lock is given back: told by the server, or by looking.

mod hub;
mod listener;
mod polled;
mod pushed;

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{Busy, Claim, Cursor, Error, ErrorKind, LockRequest, Result};

use super::error::CLOSED;
use super::store::Store;
pub(crate) use listener::Listener;
use polled::Polled;
use pushed::Pushed;

/// All who wait on one backend.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The server tells.
    Pushed(Arc<Pushed>),
    /// It has to be looked at.
    Polled(Arc<Polled>),
}

impl Waiting {
    /// On a server that tells of releases, or on one that has to be looked at every `poll`.
    pub(crate) fn new(store: &Arc<Store>, pushes: bool, poll: Duration) -> Self {
        let store = Arc::clone(store);
        if pushes { Self::Pushed(Pushed::new(store)) } else { Self::Polled(Polled::new(store, poll)) }
    }

    /// Where the announcements stand, if this attempt had better leave a mark.
    pub(crate) fn position_of(&self, request: &LockRequest) -> Option<u64> {
        match self {
            Self::Pushed(pushed) => pushed.position_of(request),
            Self::Polled(_) => None,
        }
    }

    /// Resolves when `claim` had better try again.
    pub(crate) async fn watch(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        match self {
            Self::Pushed(pushed) => pushed.watch(claim, busy).await,
            Self::Polled(polled) => polled.watch(claim, busy).await,
        }
    }

    /// A lock was given back through this backend.
    pub(crate) fn changed(&self) {
        match self {
            // The server tells.
            Self::Pushed(_) => {}
            Self::Polled(polled) => polled.changed(),
        }
    }

    /// Ends every wait, for good.
    pub(crate) fn close(&self) {
        match self {
            Self::Pushed(pushed) => pushed.close(),
            Self::Polled(polled) => polled.close(),
        }
    }
}

/// Tells the two kinds of cursors apart: tokens are below it.
const IS_POSITION: u64 = 1 << 63;

/// A busy answer's cursor: where the announcements stood when the attempt was sent, if that left a mark;
/// else the last token.
pub(crate) const fn cursor(position: Option<u64>, token: u64) -> Cursor {
    match position {
        Some(position) => Cursor(position | IS_POSITION),
        None => Cursor(token),
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Shutdown, CLOSED)
}
