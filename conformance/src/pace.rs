//! How fast a case goes.

use std::time::Duration;

/// A ttl that a case can wait for, on a machine that keeps up.
const BRIEF: Duration = Duration::from_millis(600);

/// How short the ttls of a case are. On a machine that stands still now and then they must be longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace(u32);

impl Pace {
    pub(crate) const USUAL: Self = Self(1);
    const SLOWEST: u32 = 9;

    /// By what usual times are multiplied.
    pub(crate) const fn factor(self) -> u32 {
        self.0
    }

    /// A ttl that a case can wait for.
    pub(crate) fn brief(self) -> Duration {
        BRIEF * self.0
    }

    /// How long the machine may stand still without a case taking harm: half of what one operation may take.
    pub(crate) fn tolerance(self) -> Duration {
        self.brief() / 12
    }

    /// The next slower one.
    pub(crate) fn slower(self) -> Option<Self> {
        (self.0 < Self::SLOWEST).then_some(Self(self.0 * 3))
    }
}
