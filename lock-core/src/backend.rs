//! The trait a store's backend implements.

use std::fmt::Debug;
use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::admin::LockAdmin;
use crate::claim::Claim;
use crate::clock::{Clock, Deadline};
use crate::error::Result;
use crate::guarantees::BackendInfo;
use crate::health::Health;
use crate::lease::Lease;
use crate::outcome::{Busy, Release, Renewal, TryLock};
use crate::request::LockRequest;
use crate::waiting;

/// A store that can hold locks. Written for implementors: users work with [`LockClient`](crate::LockClient),
/// which adds waiting, renewal, guards and clean-up to any backend.
///
/// # Obligations of every method
/// - It returns within a bounded time of its own, or bears being dropped at any point: the client
///   drops calls that exceed its operation time-out. A drop may leave the operation's effect unknown,
///   and nothing else. A driver that can't bear that runs the call in a task of its own.
/// - Trouble with the store is an error of the right [`ErrorKind`](crate::ErrorKind), never `Busy`
///   or `Lost`. An error whose [`Effect`](crate::Effect) is `None` certainly changed nothing.
/// - It compares owners inside the store, in the same atomic step that changes anything.
/// - It decides by the store's time, or by a clock all contenders share, never by a client's wall clock.
///
/// The contract is checked by the `distlock-conformance` suite.
#[async_trait]
pub trait LockBackend: Debug + Send + Sync + 'static {
    /// Name, promises and abilities. Constant, and needs no server.
    fn info(&self) -> &BackendInfo;

    /// The clock of every `valid_until` this backend gives out.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// One bounded attempt.
    ///
    /// - At most one claim holds a key at any moment of the store's own order of events.
    /// - Repeating it with the same claim while that holds gives the same grant with the same token
    ///   and restarts its expiry; a claim is never busy because of itself.
    /// - Every new grant of a key has a higher token than every earlier one, whatever ended that.
    /// - `valid_until` counts from an instant read before the request left ([`Lease::granted`]).
    /// - With `request.queue` on a queueing store, `Busy` leaves the claim in the queue, and a repeat
    ///   refreshes its place. Without, `Busy` leaves no place, and on a queueing store waiters go first.
    /// - Expiry in the store may be late, never early.
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock>;

    /// Prolongs a lease to `ttl` from now, if its owner still holds the lock.
    ///
    /// - It never creates a record, never shortens an expiry and never changes the token.
    /// - `Lost` is definite: this owner does not hold the lock and never will again. "Not known" is an error.
    /// - May be repeated, duplicated and late: then it changes nothing for a successor.
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal>;

    /// Removes every trace of a claim: the hold, the place in the queue, the waiter's mark.
    ///
    /// - It touches nothing of any other owner.
    /// - May be repeated, and may come before the `try_lock` that it withdraws has landed; the caller
    ///   sweeps again later in that case.
    /// - `NotHeld` says whether another owner holds the lock or nobody does.
    async fn unlock(&self, claim: &Claim) -> Result<Release>;

    /// Waits for the lock until `deadline`, then fails with `WaitTimeout`. Override it only if the
    /// store itself blocks ([`Supports::native_wait`](crate::Supports)).
    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        waiting::acquire(self, request, deadline).await
    }

    /// Prolongs many leases; the results stand in the leases' order.
    ///
    /// - Each lease fares as with [`LockBackend::renew`]; one that fails takes no other with it.
    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let mut results = Vec::with_capacity(leases.len());
        for lease in leases {
            results.push(self.renew(lease, ttl).await);
        }
        results
    }

    /// Resolves when the lock may have become free since `busy` was returned. Only a hint: it may
    /// come for nothing, late or never, and the caller tries again by time all the same.
    ///
    /// - A release after `busy.cursor` must not be missed while connected.
    /// - Dropping it leaves nothing behind.
    async fn watch_release(&self, _claim: &Claim, _busy: &Busy) -> Result<()> {
        future::pending().await
    }

    /// Resolves when the lease may have been lost. Only a hint; the caller asks by renewing.
    async fn watch_loss(&self, _lease: &Lease) -> Result<()> {
        future::pending().await
    }

    /// Passes a held lock on to `next`, which gets a higher token, past everybody who waits, or not at all.
    ///
    /// - After `Acquired`, `lease`'s owner does not hold the lock, and leaves no trace.
    /// - A `next` for another key is refused as `InvalidOptions`, and nothing changes.
    /// - It leaves no place in the queue, whatever `next.queue` says.
    /// - A store that declares [`Supports::hand_over`](crate::Supports) does it in one step: `Busy`
    ///   then means that nothing changed. `lease` was not held any more, or others wait whom nobody
    ///   passes in that store.
    /// - `NotReplicated` says that `lease`'s owner does not hold the lock any more, and that the caller
    ///   has to withdraw `next`, whose grant did not become safe.
    /// - The default, which the client does not use, gives the lock back first, and somebody else
    ///   may get it in between.
    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        next.require_key_of(lease)?;
        match self.unlock(&lease.claim).await? {
            Release::Released => self.try_lock(&next.clone().queue(false)).await,
            Release::NotHeld(_) => Ok(TryLock::Busy(Busy::unknown())),
        }
    }

    /// Asks the store how it is: reachable, version, settings that endanger locks.
    async fn probe(&self) -> Result<Health>;

    /// The operators' side, if [`Supports::admin`](crate::Supports).
    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }

    /// How many commands or statements this backend has sent so far, if it counts them.
    fn commands_sent(&self) -> Option<u64> {
        None
    }

    /// Closes connections. Held locks are left to their expiry.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// What the macro of `async-trait` makes of an async method's result.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Forwards a method as the macro of `async-trait` spells it out, without boxing its future once more.
macro_rules! forward {
    ($name:ident(&self $(, $argument:ident: $life:lifetime $type:ty)* $(; $plain:ident: $by_value:ty)?) -> $output:ty) => {
        fn $name<'me, $($life,)* 'all>(
            &'me self,
            $($argument: &$life $type,)*
            $($plain: $by_value,)?
        ) -> Boxed<'all, $output>
        where
            'me: 'all,
            $($life: 'all,)*
            Self: 'all,
        {
            (**self).$name($($argument,)* $($plain,)?)
        }
    };
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend + ?Sized> LockBackend for Arc<B> {
    fn info(&self) -> &BackendInfo {
        (**self).info()
    }
    fn clock(&self) -> Clock {
        (**self).clock()
    }
    forward!(try_lock(&self, request: 'a LockRequest) -> Result<TryLock>);
    forward!(renew(&self, lease: 'a Lease; ttl: Duration) -> Result<Renewal>);
    forward!(unlock(&self, claim: 'a Claim) -> Result<Release>);
    forward!(lock(&self, request: 'a LockRequest; deadline: Deadline) -> Result<Lease>);
    forward!(renew_many(&self, leases: 'a [Lease]; ttl: Duration) -> Vec<Result<Renewal>>);
    forward!(watch_release(&self, claim: 'a Claim, busy: 'b Busy) -> Result<()>);
    forward!(watch_loss(&self, lease: 'a Lease) -> Result<()>);
    forward!(hand_over(&self, lease: 'a Lease, next: 'b LockRequest) -> Result<TryLock>);
    forward!(probe(&self) -> Result<Health>);
    fn admin(&self) -> Option<&dyn LockAdmin> {
        (**self).admin()
    }
    fn commands_sent(&self) -> Option<u64> {
        (**self).commands_sent()
    }
    forward!(close(&self) -> Result<()>);
}

const _: fn(&dyn LockBackend) = |_| {};
