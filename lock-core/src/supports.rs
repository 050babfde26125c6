//! What a backend can do beyond what every backend must.

/// What a backend can do beyond the required operations. Each flag that is set has a conformance
/// case that probes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Supports {
    /// A release wakes waiters of other clients by itself.
    pub push: bool,
    /// A loss is announced before the next renewal.
    pub loss_push: bool,
    /// The store keeps a queue, and `LockRequest::queue` joins it.
    pub queue: bool,
    /// `lock` blocks in the store itself.
    pub native_wait: bool,
    /// `renew_many` costs one round trip, or one for each part the store divides its locks into, not
    /// one a lease.
    pub batch_renew: bool,
    /// `hand_over` costs one round trip, not two.
    pub hand_over: bool,
    /// Inspecting, listing, forced release.
    pub admin: bool,
    /// A lease may be carried to another process.
    pub adopt: bool,
    /// Several processes can share the store.
    pub processes: bool,
}

impl Supports {
    /// Nothing beyond the required operations.
    pub const NONE: Self = Self {
        push: false,
        loss_push: false,
        queue: false,
        native_wait: false,
        batch_renew: false,
        hand_over: false,
        admin: false,
        adopt: false,
        processes: false,
    };

    /// The abilities by name, in a fixed order.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, bool); 9] {
        [
            ("push", self.push),
            ("loss_push", self.loss_push),
            ("queue", self.queue),
            ("native_wait", self.native_wait),
            ("batch_renew", self.batch_renew),
            ("hand_over", self.hand_over),
            ("admin", self.admin),
            ("adopt", self.adopt),
            ("processes", self.processes),
        ]
    }
}

macro_rules! ability_setters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        impl Supports {
            $($(#[$doc])*
            #[must_use]
            pub const fn $name(mut self) -> Self {
                self.$name = true;
                self
            })*
        }
    };
}

ability_setters! {
    /// Sets `push`.
    push,
    /// Sets `loss_push`.
    loss_push,
    /// Sets `queue`.
    queue,
    /// Sets `native_wait`.
    native_wait,
    /// Sets `batch_renew`.
    batch_renew,
    /// Sets `hand_over`.
    hand_over,
    /// Sets `admin`.
    admin,
    /// Sets `adopt`.
    adopt,
    /// Sets `processes`.
    processes,
}
