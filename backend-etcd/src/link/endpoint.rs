//! One member of the cluster.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock_core::{Backoff, Clock, Instant, Timers};
use etcd_client::Client;
use tokio::sync::Mutex as AsyncMutex;

use super::opener::Opener;
use crate::error::{Failure, Verdict};

/// A call that was given up after this long without any answer meanwhile speaks against its member.
const SILENCE: Duration = Duration::from_millis(50);
/// A connection that is silent for this long is replaced: it may lead nowhere.
const DEAF: Duration = Duration::from_secs(1);
/// How long a member that failed is left alone: at first, and after many failures.
const REST: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// One member of the cluster, with a connection of its own.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) server: String,
    opener: Option<Opener>,
    clock: Clock,
    state: Mutex<State>,
    /// One opens for all: that may take a round trip, to show who one is.
    opening: Arc<AsyncMutex<()>>,
}

struct State {
    client: Option<Arc<Client>>,
    rest: Backoff,
    rests_until: Instant,
    answered: Instant,
    /// When the first of the calls was sent that got no answer since the last one that did.
    silent_since: Instant,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("is_open", &self.client.is_some()).finish_non_exhaustive()
    }
}

impl Endpoint {
    pub(super) fn new(server: &str, opener: Opener) -> Self {
        Self::with(server, Some(opener), None)
    }

    /// A connection of the application's own, which is never replaced.
    pub(super) fn own(client: Client) -> Self {
        Self::with("the server", None, Some(Arc::new(client)))
    }

    fn with(server: &str, opener: Option<Opener>, client: Option<Arc<Client>>) -> Self {
        let state = State {
            client,
            rest: Backoff::new(REST.0, REST.1),
            rests_until: Instant::ORIGIN,
            answered: Instant::ORIGIN,
            silent_since: Instant::FAR,
        };
        Self {
            server: server.to_owned(),
            opener,
            clock: Clock::system(),
            state: Mutex::new(state),
            opening: Arc::default(),
        }
    }

    /// The connection, if it is open.
    pub(super) fn opened(&self) -> Option<Arc<Client>> {
        self.state().client.clone()
    }

    /// The connection, opened if need be within `limit`.
    pub(super) async fn client(self: &Arc<Self>, limit: Duration) -> Result<Arc<Client>, Failure> {
        let opening = Arc::clone(&self.opening).lock_owned().await;
        if let Some(client) = self.opened() {
            return Ok(client);
        }
        let Some(opener) = self.opener.clone() else { return Err(Failure::unreachable(&self.server)) };
        let this = Arc::clone(self);
        let open = async move {
            let _opening = opening;
            let client = Arc::new(opener.open(&this.server).await?);
            let mut state = this.state();
            state.client = Some(Arc::clone(&client));
            // What the connection before it left unanswered says nothing about this one.
            state.silent_since = Instant::FAR;
            drop(state);
            Ok(client)
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "begun again and again by callers in a hurry, it would never end, and cost the server a look at the password each time"
        )]
        let opened = tokio::spawn(async move { Timers::new().limit(limit, open).await }).await;
        opened.ok().flatten().unwrap_or_else(|| Err(Failure::unreachable(&self.server)))
    }

    /// How long opening may take: with a user it is a request as well.
    pub(super) fn opening_limit(&self, connect: Duration, response: Duration) -> Duration {
        if self.opener.as_ref().is_some_and(Opener::asks) { connect.max(response) } else { connect }
    }

    /// When it may be used again.
    pub(super) fn rests_until(&self) -> Instant {
        self.state().rests_until
    }

    /// A call is about to be sent.
    pub(super) fn send(&self) -> Outstanding<'_> {
        Outstanding { endpoint: self, sent: self.clock.now(), is_judged: false }
    }

    /// It failed: others go first for a while.
    pub(super) fn failed(&self) {
        let mut state = self.state();
        let until = self.clock.now().plus(state.rest.pause());
        state.rests_until = state.rests_until.max(until);
    }

    /// The next call opens a new connection.
    pub(super) fn hang_up(&self) {
        if self.opener.is_some() {
            self.state().client = None;
        }
    }

    fn answered(&self) {
        let mut state = self.state();
        state.rest.reset();
        state.rests_until = Instant::ORIGIN;
        state.answered = self.clock.now();
        state.silent_since = Instant::FAR;
    }

    fn given_up(&self, sent: Instant) {
        let now = self.clock.now();
        let since = {
            let mut state = self.state();
            if state.answered >= sent || now.since(sent) < SILENCE {
                return;
            }
            state.silent_since = state.silent_since.min(sent);
            state.silent_since
        };
        self.failed();
        if now.since(since) >= DEAF {
            self.hang_up();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was sent; dropped without an answer, it may count against its member.
#[derive(Debug)]
pub(super) struct Outstanding<'a> {
    endpoint: &'a Endpoint,
    sent: Instant,
    is_judged: bool,
}

impl Outstanding<'_> {
    /// Something came back, or the connection failed.
    pub(super) fn judge<T>(mut self, result: &Result<T, Failure>) {
        self.is_judged = true;
        match result.as_ref().map_err(|failure| failure.verdict) {
            Err(Verdict::Elsewhere | Verdict::Doubtful) => self.endpoint.failed(),
            // The client crate connects anew by itself, unless the runtime is gone that it was made in.
            Err(Verdict::Broken) => {
                self.endpoint.failed();
                self.endpoint.hang_up();
            }
            Err(Verdict::Authenticate) => self.endpoint.hang_up(),
            _ => self.endpoint.answered(),
        }
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if !self.is_judged {
            self.endpoint.given_up(self.sent);
        }
    }
}
