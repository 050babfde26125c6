//! The user's side: taking locks and keeping them.

mod acquire;
mod asked;
mod attempt;
mod handed_over;
mod inner;
mod observing;
mod options;
mod self_wait;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::inner::ClientInner;
pub use self::options::ClientOptions;
pub(crate) use self::turns::Turn;

use self::acquire::Grant;
use self::asked::{Asked, outcome, tried};
use crate::admin::LockAdmin;
use crate::backend::LockBackend;
use crate::claim::Claim;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::guarantees::{BackendInfo, Guarantees};
use crate::guard::{GuardView, LockGuard};
use crate::key::IntoKey;
use crate::layers;
use crate::lease::Lease;
use crate::options::LockOptions;
use crate::outcome::{LostReason, Renewal};
use crate::releaser::Sweep;
use crate::waiting::{bounded, sleep_until};

/// Takes and keeps locks on any [`LockBackend`]: waits, renews, notices loss, and cleans up.
///
/// Cheap to clone; clones share everything. The last clone or guard to go ends the background task
/// when its work is done.
#[derive(Clone)]
pub struct LockClient {
    inner: Arc<ClientInner>,
}

/// What a shutdown could not release in time; it blocks others until its ttl is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreleased {
    /// The claims whose release the store did not acknowledge.
    pub claims: Vec<Claim>,
}

impl Unreleased {
    /// Whether everything was released.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient")
            .field("store", &self.info().name)
            .field("options", self.options())
            .finish_non_exhaustive()
    }
}

impl LockClient {
    /// A client with default options.
    #[must_use]
    pub fn new(backend: Arc<dyn LockBackend>) -> Self {
        Self::build(backend, ClientOptions::default())
    }

    /// A client with these options.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOptions`] if the default lock options contradict each other or the store's limits.
    pub fn with_options(backend: Arc<dyn LockBackend>, options: ClientOptions) -> Result<Self> {
        options.defaults.timing(&backend.info().guarantees)?;
        Ok(Self::build(backend, options))
    }

    fn build(backend: Arc<dyn LockBackend>, options: ClientOptions) -> Self {
        let backend = layers::standard(backend, options.namespace.as_ref());
        Self { inner: Arc::new(ClientInner::new(backend, options)) }
    }

    /// Tries once; `None` if somebody else holds the lock or waits for it. Uses the client's default options.
    ///
    /// # Errors
    /// As [`LockClient::try_lock_with`].
    ///
    /// # Cancel safety
    /// May be dropped at any point: what it left in the store is withdrawn in the background.
    pub async fn try_lock(&self, key: impl IntoKey) -> Result<Option<LockGuard>> {
        self.try_lock_with(key, &self.inner.options.defaults).await
    }

    /// Tries once with these options, whose wait policy is ignored; `None` if somebody else holds the
    /// lock, or waits for it: through this client, or elsewhere if the store keeps a queue.
    ///
    /// # Errors
    /// `InvalidKey` and `InvalidOptions` before any I/O; the store's errors; `TooSlow` if the grant
    /// came too late to be of use.
    ///
    /// # Cancel safety
    /// May be dropped at any point: what it left in the store is withdrawn in the background.
    pub async fn try_lock_with(&self, key: impl IntoKey, options: &LockOptions) -> Result<Option<LockGuard>> {
        let key = key.into_key()?;
        let asked = Asked::begin(&self.inner.observer, "try-lock");
        let answer = self.try_take(key, options).await;
        asked.end(tried(&answer));
        answer
    }

    /// Takes the lock, waiting for it as long as the client's default options say, which is for ever.
    ///
    /// # Errors
    /// As [`LockClient::lock_with`].
    ///
    /// # Cancel safety
    /// May be dropped at any point: what it left in the store is withdrawn in the background.
    pub async fn lock(&self, key: impl IntoKey) -> Result<LockGuard> {
        self.lock_with(key, &self.inner.options.defaults).await
    }

    /// Takes the lock, waiting for it as the options say.
    ///
    /// # Errors
    /// `InvalidKey` and `InvalidOptions` before any I/O; `WaitTimeout`, with what is known of the
    /// holder in [`Error::busy`], if it stayed busy; `Overloaded` if too many callers wait; the
    /// store's errors, once they lasted for a ttl or can't be cured by trying again.
    ///
    /// A call whose turn has come holds up the others of this client until it is polled: await it or
    /// drop it, but don't keep it aside. The same task must not wait for a key that it holds itself; a call
    /// that seems to is warned of, see [`LockChange::SelfWait`](crate::LockChange::SelfWait).
    ///
    /// # Cancel safety
    /// May be dropped at any point: what it left in the store is withdrawn in the background.
    pub async fn lock_with(&self, key: impl IntoKey, options: &LockOptions) -> Result<LockGuard> {
        let key = key.into_key()?;
        let asked = Asked::begin(&self.inner.observer, "lock");
        let answer = self.take(key, options).await;
        asked.end(outcome(&answer, options.wait));
        answer
    }

    /// Takes the lock, runs `body`, and gives the lock back. `body` is dropped when the lock is lost.
    ///
    /// # Errors
    /// As [`LockClient::with_lock_with`].
    ///
    /// # Cancel safety
    /// Dropping it drops `body` and releases the lock in the background.
    pub async fn with_lock<T, F, Fut>(&self, key: impl IntoKey, body: F) -> Result<T>
    where
        F: FnOnce(GuardView) -> Fut,
        Fut: Future<Output = T>,
    {
        self.with_lock_with(key, &self.inner.options.defaults, body).await
    }

    /// Takes the lock with these options, runs `body`, and gives the lock back. `body` is dropped
    /// when the lock is lost, and never started without it.
    ///
    /// # Errors
    /// As [`LockClient::lock_with`]; [`ErrorKind::Lost`] if the lock was lost before `body` was done.
    /// `body`'s own result is returned as it is: trouble in giving the lock back never hides it, and
    /// is left to the background task.
    ///
    /// # Cancel safety
    /// Dropping it drops `body` and releases the lock in the background.
    pub async fn with_lock_with<T, F, Fut>(
        &self,
        key: impl IntoKey,
        options: &LockOptions,
        body: F,
    ) -> Result<T>
    where
        F: FnOnce(GuardView) -> Fut,
        Fut: Future<Output = T>,
    {
        let guard = self.lock_with(key, options).await?;
        let done = guard.run(body(guard.view())).await?;
        // An unacknowledged release goes on in the background; `body`'s result matters more.
        let _ = guard.unlock().await;
        Ok(done)
    }

    /// Turns a lease that another guard or process gave away into a guard, renewing it first.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if it is not held any more; [`ErrorKind::Unsupported`] if the store ties
    /// leases to their client; the store's errors, after which the lease may still be adopted.
    ///
    /// # Cancel safety
    /// May be dropped at any point: the lease stays, prolonged or not, until it runs out.
    pub async fn adopt(&self, lease: Lease) -> Result<LockGuard> {
        let info = self.inner.backend.info();
        let fail = |error: Error| self.inner.context(error, Operation::Adopt, &lease.claim.key);
        if !info.supports.adopt {
            return Err(fail(Error::new(
                ErrorKind::Unsupported,
                "this store ties a lease to the client that took it",
            )));
        }
        let timing = LockOptions { ttl: lease.ttl, ..self.inner.options.defaults.clone() }
            .timing(&info.guarantees)
            .map_err(fail)?;
        self.inner.ready()?;
        let renewal =
            bounded(&self.inner.timers, timing.op_timeout, self.inner.backend.renew(&lease, timing.ttl))
                .await;
        match renewal.map_err(fail)? {
            Renewal::Renewed { valid_until } => {
                let turn = self.inner.turns.try_take(&lease.claim.key);
                let lease = Lease { valid_until, ttl: timing.ttl, ..lease };
                let metadata = self.inner.options.metadata.clone();
                self.guard(Grant { lease, timing, metadata, doubtful: false }, turn)
            }
            Renewal::Lost(reason) => {
                Err(fail(Error::new(ErrorKind::Lost, format!("the lease is lost: {reason}"))))
            }
        }
    }

    /// Checks once, at start, that the store promises at least what the program relies on.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`], naming each missing promise.
    pub fn require(&self, wanted: &Guarantees) -> Result<()> {
        let info = self.inner.backend.info();
        info.guarantees.require(wanted).map_err(|error| error.on_backend(info.name))
    }

    /// What the store promises and can do.
    #[must_use]
    pub fn info(&self) -> &BackendInfo {
        self.inner.backend.info()
    }

    /// The clock of every `valid_until`.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.inner.clock.clone()
    }

    /// The backend, with the client's layers around it.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn LockBackend> {
        &self.inner.backend
    }

    /// The client's options.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    /// The operators' side: inspecting, listing, forced release.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the backend has none.
    pub fn admin(&self) -> Result<&dyn LockAdmin> {
        self.inner.backend.admin().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this store can't be inspected").on_backend(self.info().name)
        })
    }

    /// Ends the client: refuses new work, releases every lock it holds and every claim it left, and
    /// closes the backend. Returns after `limit` at the latest, with what was not released by then.
    ///
    /// Guards that still live are told first that their lock is lost ([`LostReason::Shutdown`]), but
    /// nothing waits for the code under them: stop that before.
    ///
    /// # Cancel safety
    /// When dropped, releases go on in the background, and the backend stays open.
    pub async fn shutdown(&self, limit: Duration) -> Unreleased {
        let inner = &self.inner;
        inner.refuse_work();
        for held in inner.watchdog.forget_all() {
            let turn = held.take_turn();
            if held.state().is_valid() {
                held.lose(LostReason::Shutdown);
                inner.releaser.push(Sweep::of(&held, turn));
            }
        }
        let until = inner.clock.now().plus(limit);
        if inner.drive().is_ok() {
            tokio::select! {
                () = inner.drained() => {}
                () = sleep_until(&inner.clock, until) => {}
            }
        }
        let left = until.since(inner.clock.now()).max(Duration::from_millis(100));
        let _ = bounded(&inner.timers, left, inner.backend.close()).await;
        Unreleased { claims: inner.releaser.pending() }
    }

    /// Waits until nothing that guards and calls left is still to be released.
    #[cfg(feature = "blocking")]
    pub(crate) async fn released(&self) {
        self.inner.releaser.drained().await;
    }
}
