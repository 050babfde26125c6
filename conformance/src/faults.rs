//! Ways to hurt a store from inside.

use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{LockKey, Operation};

/// Ways to hurt a store, each optional. Dropped futures, lost replies between client and backend,
/// silence, mute hints and killed processes need none of them: the suite stages those itself.
///
/// Cases that use a fault run alone, since it may strike the whole store, and what lasts is ended by
/// [`Faults::heal`] after each of them, however it went. [`NetworkFaults`](crate::NetworkFaults) is an
/// implementation for stores that are reached over TCP.
#[async_trait]
pub trait Faults: Send + Sync {
    /// Which of the methods below do something.
    fn abilities(&self) -> FaultAbilities;

    /// The address at which the faults of the network strike, if it is another one than
    /// [`Subject::url`](crate::Subject::url), at which clients then go on undisturbed. Those faults are
    /// `slow_answers`, `lose_answer`, `outage`, `silence`, `silence_answers`, `reset_connections` and
    /// `hold_requests`.
    fn exposed_url(&self) -> Option<String> {
        None
    }

    /// Ends the lease of `key` now, as if its ttl had passed.
    async fn expire_now(&self, _key: &LockKey) {}

    /// Forgets everything about idle keys that the store is allowed to forget after any idle time.
    async fn prune(&self) {}

    /// Restarts the store with its data kept, and returns when it serves again.
    async fn restart(&self) {}

    /// Restarts the store without its data, and returns when it serves again.
    async fn restart_wiped(&self) {}

    /// Freezes the store with its connections open, until [`Faults::heal`].
    async fn pause(&self) {}

    /// Holds back every answer for this long, after the operation took effect.
    async fn slow_answers(&self, _by: Duration) {}

    /// Lets the next operation of this kind take effect and loses its answer on the way to the backend.
    async fn lose_answer(&self, _operation: Operation) {}

    /// Makes the store unreachable, until [`Faults::heal`]. How is left to it: over TCP, connections
    /// are reset and refused.
    async fn outage(&self) {}

    /// Lets nothing through in either direction until [`Faults::heal`], with connections left open, so
    /// that nobody is told. What was sent meanwhile never arrives.
    async fn silence(&self) {}

    /// The same, but requests still take effect.
    async fn silence_answers(&self) {}

    /// Resets every connection once. New ones are taken at once.
    async fn reset_connections(&self) {}

    /// Holds back every request until [`Faults::heal`], and delivers it then, although its sender may
    /// have given up.
    async fn hold_requests(&self) {}

    /// Sends the request that was held last once more, and returns when it has most likely landed.
    async fn duplicate(&self) {}

    /// Ends everything that lasts: `slow_answers`, `lose_answer`, `outage`, `silence`,
    /// `silence_answers`, `hold_requests` and `pause`.
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
    /// [`Faults::restart_wiped`].
    pub restart_wiped: bool,
    /// Tokens of a key go on rising after [`Faults::restart_wiped`], since a clock is their floor.
    pub tokens_outlive_data: bool,
    /// Held locks survive [`Faults::restart`] as this store is set up, whether or not the backend
    /// promises that in general.
    pub holds_outlive_restart: bool,
    /// [`Faults::pause`].
    pub pause: bool,
    /// [`Faults::slow_answers`].
    pub slow_answers: bool,
    /// [`Faults::lose_answer`].
    pub lose_answer: bool,
    /// [`Faults::outage`].
    pub outage: bool,
    /// [`Faults::silence`] and [`Faults::silence_answers`].
    pub silence: bool,
    /// [`Faults::reset_connections`].
    pub reset_connections: bool,
    /// [`Faults::hold_requests`].
    pub hold_requests: bool,
    /// [`Faults::duplicate`].
    pub duplicate: bool,
    /// [`Faults::exposed_url`] is there, so that faults of the network strike nobody at [`Subject::url`](crate::Subject::url).
    pub aside: bool,
}

/// The setters: each says that the fault of its name can be staged.
macro_rules! setters {
    ($($name:ident),+ $(,)?) => {
        impl FaultAbilities {
            /// None.
            pub const NONE: Self = Self { $($name: false),+ };

            $(
                #[doc = concat!("Sets `", stringify!($name), "`.")]
                #[must_use]
                pub const fn $name(mut self) -> Self {
                    self.$name = true;
                    self
                }
            )+
        }
    };
}

setters! {
    expire_now,
    prune,
    restart,
    restart_wiped,
    tokens_outlive_data,
    holds_outlive_restart,
    pause,
    slow_answers,
    lose_answer,
    outage,
    silence,
    reset_connections,
    hold_requests,
    duplicate,
    aside,
}
