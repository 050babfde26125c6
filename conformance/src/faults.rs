//! Ways to hurt a store from inside.

use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{LockKey, Operation};

/// Ways to hurt a store, each optional. Dropped futures, lost replies between client and backend,
/// silence, mute hints and killed processes need none of them: the suite stages those itself.
///
/// Cases that use a fault run alone, since it strikes the whole store.
#[async_trait]
pub trait Faults: Send + Sync {
    /// Which of the methods below do something.
    fn abilities(&self) -> FaultAbilities;

    /// Ends the lease of `key` now, as if its ttl had passed.
    async fn expire_now(&self, _key: &LockKey) {}

    /// Forgets everything about idle keys that the store is allowed to forget after any idle time.
    async fn prune(&self) {}

    /// Restarts the store with its data kept, and returns when it serves again.
    async fn restart(&self) {}

    /// Holds back every answer for this long, after the operation took effect.
    async fn slow_answers(&self, _by: Duration) {}

    /// Lets the next operation of this kind take effect and loses its answer on the way to the backend.
    async fn lose_answer(&self, _operation: Operation) {}

    /// Makes the store unreachable, until [`Faults::heal`].
    async fn outage(&self) {}

    /// Ends `slow_answers`, `lose_answer` and `outage`.
    async fn heal(&self) {}
}

/// Which faults a store can be made to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultAbilities {
    /// [`Faults::expire_now`].
    pub expire_now: bool,
    /// [`Faults::prune`].
    pub prune: bool,
    /// [`Faults::restart`].
    pub restart: bool,
    /// [`Faults::slow_answers`].
    pub slow_answers: bool,
    /// [`Faults::lose_answer`].
    pub lose_answer: bool,
    /// [`Faults::outage`].
    pub outage: bool,
}

impl FaultAbilities {
    /// None.
    pub const NONE: Self = Self {
        expire_now: false,
        prune: false,
        restart: false,
        slow_answers: false,
        lose_answer: false,
        outage: false,
    };

    /// Sets `expire_now`.
    #[must_use]
    pub const fn expire_now(mut self) -> Self {
        self.expire_now = true;
        self
    }

    /// Sets `prune`.
    #[must_use]
    pub const fn prune(mut self) -> Self {
        self.prune = true;
        self
    }

    /// Sets `restart`.
    #[must_use]
    pub const fn restart(mut self) -> Self {
        self.restart = true;
        self
    }

    /// Sets `slow_answers`.
    #[must_use]
    pub const fn slow_answers(mut self) -> Self {
        self.slow_answers = true;
        self
    }

    /// Sets `lose_answer`.
    #[must_use]
    pub const fn lose_answer(mut self) -> Self {
        self.lose_answer = true;
        self
    }

    /// Sets `outage`.
    #[must_use]
    pub const fn outage(mut self) -> Self {
        self.outage = true;
        self
    }
}
