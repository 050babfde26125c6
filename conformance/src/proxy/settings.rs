//! How a proxy behaves at the moment, shared by all its connections.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::traffic::Traffic;

/// A direction through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a wire has two ends")]
pub enum Way {
    /// Requests.
    ToServer,
    /// Answers.
    ToClient,
}

/// What happens to the bytes of one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flow {
    #[default]
    Passing,
    Held,
    Silent,
}

/// One way's behaviour.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    pub(super) flow: Flow,
    /// After how many bytes a connection is cut, and the number of that order: each connection
    /// counts from the moment it sees a new one.
    pub(super) cut: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    to_server: Lane,
    to_client: Lane,
    orders: u64,
    /// The next request loses its answer, on a connection with a lower number than this.
    armed: Option<u64>,
    /// Raised when all connections are to be reset.
    pub(super) resets: u64,
}

impl Settings {
    pub(super) const fn lane(&self, way: Way) -> Lane {
        match way {
            Way::ToServer => self.to_server,
            Way::ToClient => self.to_client,
        }
    }

    pub(super) const fn way(&mut self, way: Way) -> &mut Lane {
        match way {
            Way::ToServer => &mut self.to_server,
            Way::ToClient => &mut self.to_client,
        }
    }

    pub(super) const fn cut_after(&mut self, way: Way, bytes: u64) {
        self.orders += 1;
        let order = self.orders;
        self.way(way).cut = Some((bytes, order));
    }

    pub(super) const fn arm(&mut self, below: u64) {
        self.armed = Some(below);
    }

    pub(super) fn passing(&self) -> Self {
        Self { orders: self.orders, resets: self.resets, ..Self::default() }
    }
}

/// The settings and counts of one proxy.
#[derive(Debug, Default)]
pub(super) struct Shared {
    settings: watch::Sender<Settings>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    traffic: Traffic,
    last_held: Option<Vec<u8>>,
}

impl Shared {
    pub(super) fn change(&self, change: impl FnOnce(&mut Settings)) {
        self.settings.send_modify(change);
    }

    pub(super) fn watch(&self) -> watch::Receiver<Settings> {
        self.settings.subscribe()
    }

    /// Whether the request that this connection is about to forward is the one that loses its answer.
    pub(super) fn disarm(&self, connection: u64) -> bool {
        self.settings
            .send_if_modified(|settings| settings.armed.take_if(|below| connection < *below).is_some())
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.counts().traffic
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Traffic)) {
        count(&mut self.counts().traffic);
    }

    pub(super) fn last_held(&self) -> Option<Vec<u8>> {
        self.counts().last_held.clone()
    }

    pub(super) fn note_held(&self, bytes: &[u8]) {
        self.counts().last_held = Some(bytes.to_vec());
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
