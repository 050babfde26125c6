//! Taking locks by calls that block.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::admin::LockAdmin;
use super::guard::LockGuard;
use super::thread::ClientThread;
use super::view::GuardView;
use crate::client::{self, ClientOptions, Unreleased};
use crate::clock::Clock;
use crate::error::Result;
use crate::events::Events;
use crate::guarantees::{BackendInfo, Guarantees};
use crate::health::Health;
use crate::key::IntoKey;
use crate::lease::Lease;
use crate::options::LockOptions;

/// Takes and keeps locks on any store, by calls that block the calling thread.
///
/// Cheap to clone, and usable from any number of threads; clones share everything, the client's one thread too. See
/// [the module](super) for what is different from the asynchronous [`LockClient`](crate::LockClient).
///
/// # Panics
/// Every method that says so panics on a thread that drives async tasks, before anything is sent.
#[derive(Clone)]
pub struct LockClient {
    thread: Arc<ClientThread>,
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("blocking::LockClient").field(self.as_async()).finish()
    }
}

impl LockClient {
    /// Starts the client's thread, runs `connecting` with its runtime, and keeps the client that this gives.
    ///
    /// The client should be of no use elsewhere: connections work only in the runtime in which they were made.
    ///
    /// # Errors
    /// Those of `connecting`; [`ErrorKind::Other`](crate::ErrorKind::Other) if the system gives no thread.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn open(connecting: impl Future<Output = Result<client::LockClient>>) -> Result<Self> {
        Ok(Self { thread: ClientThread::start(connecting)? })
    }

    /// Tries once; `None` if somebody else holds the lock or waits for it. Uses the client's default options.
    ///
    /// # Errors
    /// As [`LockClient::try_lock_with`].
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn try_lock(&self, key: impl IntoKey) -> Result<Option<LockGuard>> {
        self.try_lock_with(key, &self.options().defaults)
    }

    /// Tries once with these options, whose wait policy is ignored; `None` if somebody else holds the
    /// lock or waits for it. Blocks for one operation of the store, at most the options' `op_timeout`.
    ///
    /// # Errors
    /// As [the asynchronous one](crate::LockClient::try_lock_with).
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn try_lock_with(&self, key: impl IntoKey, options: &LockOptions) -> Result<Option<LockGuard>> {
        let guard = self.block_on(self.as_async().try_lock_with(key, options))?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Takes the lock, waiting for it as long as the client's default options say, which is for ever.
    ///
    /// # Errors
    /// As [`LockClient::lock_with`].
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn lock(&self, key: impl IntoKey) -> Result<LockGuard> {
        self.lock_with(key, &self.options().defaults)
    }

    /// Takes the lock, waiting for it as the options say. A thread must not wait for a key that it holds itself.
    ///
    /// # Errors
    /// As [the asynchronous one](crate::LockClient::lock_with); [`ErrorKind::Shutdown`](crate::ErrorKind::Shutdown)
    /// when another thread shuts the client down meanwhile.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn lock_with(&self, key: impl IntoKey, options: &LockOptions) -> Result<LockGuard> {
        let guard = self.block_on(self.as_async().lock_with(key, options))?;
        Ok(self.guard(guard))
    }

    /// Takes the lock, runs `body`, and gives the lock back. Uses the client's default options.
    ///
    /// # Errors
    /// As [`LockClient::with_lock_with`].
    ///
    /// # Panics
    /// On a thread that drives async tasks, and when `body` panics.
    #[track_caller]
    pub fn with_lock<T>(&self, key: impl IntoKey, body: impl FnOnce(GuardView) -> T) -> Result<T> {
        self.with_lock_with(key, &self.options().defaults, body)
    }

    /// Takes the lock with these options, runs `body`, and gives the lock back. `body` is never started without the
    /// lock, but runs to its end when the lock is lost: it has to ask its [`GuardView`] between its steps.
    ///
    /// # Errors
    /// As [`LockClient::lock_with`]; [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost before `body` was
    /// done, with its result dropped. What `body` did stays done. Otherwise its result is returned as it is: trouble in
    /// giving the lock back never hides it, and is left to the client's thread.
    ///
    /// # Panics
    /// On a thread that drives async tasks, and when `body` panics; the client's thread then releases the lock.
    #[track_caller]
    pub fn with_lock_with<T>(
        &self,
        key: impl IntoKey,
        options: &LockOptions,
        body: impl FnOnce(GuardView) -> T,
    ) -> Result<T> {
        let guard = self.lock_with(key, options)?;
        guard.require_held()?;
        let done = body(guard.view());
        guard.require_held()?;
        // An unacknowledged release goes on in the background; `body`'s result matters more.
        let _ = guard.unlock();
        Ok(done)
    }

    /// Turns a lease that another guard or process gave away into a guard, renewing it first.
    ///
    /// # Errors
    /// As [the asynchronous one](crate::LockClient::adopt).
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn adopt(&self, lease: Lease) -> Result<LockGuard> {
        let guard = self.block_on(self.as_async().adopt(lease))?;
        Ok(self.guard(guard))
    }

    /// Checks once, at start, that the store promises at least what the program relies on. Does not block.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported), naming each missing promise.
    pub fn require(&self, wanted: &Guarantees) -> Result<()> {
        self.as_async().require(wanted)
    }

    /// What the store promises and can do.
    #[must_use]
    pub fn info(&self) -> &BackendInfo {
        self.as_async().info()
    }

    /// The clock of every `valid_until`.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.as_async().clock()
    }

    /// The client's options.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        self.as_async().options()
    }

    /// The operators' side: inspecting, listing, forced release. Does not block; its calls do.
    ///
    /// ```
    /// # use distlock_core::{Registry, blocking::LockClient};
    /// # fn main() -> distlock_core::Result<()> {
    /// # let client = LockClient::open(Registry::new().connect("memory:"))?;
    /// let guard = client.lock("invoice/42")?;
    /// let record = client.admin()?.inspect(guard.key())?;
    /// assert_eq!(record.and_then(|record| record.last_token), Some(guard.token()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the backend has none.
    pub fn admin(&self) -> Result<LockAdmin<'_>> {
        Ok(LockAdmin::new(self.as_async().admin()?, &self.thread))
    }

    /// Asks the store how it is, within 5 s.
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn probe(&self) -> Result<Health> {
        self.block_on(self.as_async().probe())
    }

    /// Whether this client is of use now: it was not shut down, and the store answers within 2 s.
    ///
    /// # Errors
    /// As [the asynchronous one](crate::LockClient::health).
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn health(&self) -> Result<Health> {
        self.block_on(self.as_async().health())
    }

    /// What happens to this client's locks from now on. A thread waits for the next event by
    /// [`LockClient::block_on`].
    ///
    /// ```
    /// # use distlock_core::{LockChange, Registry, blocking::LockClient};
    /// # fn main() -> distlock_core::Result<()> {
    /// # let client = LockClient::open(Registry::new().connect("memory:"))?;
    /// let mut events = client.events();
    /// client.lock("invoice/42")?.unlock()?;
    /// let first = client.block_on(events.next()).expect("the client lives");
    /// assert_eq!(first.unwrap().change, LockChange::Granted);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn events(&self) -> Events {
        self.as_async().events()
    }

    /// Ends the client: refuses new work, sends those who wait away, releases every lock it holds and every claim
    /// it left. Returns after `limit` at the latest, with what was not released by then.
    ///
    /// Guards that still live are told first that their lock is lost
    /// ([`LostReason::Shutdown`](crate::LostReason::Shutdown)), but nothing waits for the code under them: stop that before.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn shutdown(&self, limit: Duration) -> Unreleased {
        self.block_on(self.as_async().shutdown(limit))
    }

    /// The asynchronous client behind this one, for what has no blocking call: give what it returns to
    /// [`LockClient::block_on`].
    #[must_use]
    pub fn as_async(&self) -> &client::LockClient {
        self.thread.client()
    }

    /// Runs a future to its end on the calling thread, with the client's runtime: a gate of a fence, work that is
    /// dropped when its lock is lost, whatever is asynchronous alone.
    ///
    /// ```
    /// # use distlock_core::{Registry, blocking::LockClient};
    /// # fn main() -> distlock_core::Result<()> {
    /// # let client = LockClient::open(Registry::new().connect("memory:"))?;
    /// let guarded = client.as_async().with_lock("invoice/42", |guard| async move { guard.token() });
    /// println!("done with token {}", client.block_on(guarded)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// On a thread that drives async tasks, and when the future panics.
    #[track_caller]
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.thread.block_on(work)
    }

    fn guard(&self, guard: crate::guard::LockGuard) -> LockGuard {
        LockGuard::new(guard, Arc::clone(&self.thread))
    }
}
