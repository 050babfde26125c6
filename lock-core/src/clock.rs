//! The one source of time: every deadline in this crate is an [`Instant`] read from a [`Clock`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A point on a [`Clock`], in nanoseconds since that clock's origin.
///
/// Two instants may be compared only if they come from the same clock. Instants of
/// [`Clock::system`] are comparable between processes of one boot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin: for a lease, "already over".
    pub const ORIGIN: Self = Self(0);
    /// Later than any instant a clock will ever show.
    pub const FAR: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant moved later by `by`, at most to [`Instant::FAR`].
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    /// This instant moved earlier by `by`, at most to [`Instant::ORIGIN`].
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }

    /// Time from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// Where instants come from. Cheap to clone.
///
/// Real backends use [`Clock::system`], which on Linux reads CLOCK_BOOTTIME: it is not moved by
/// NTP or by an operator, and unlike CLOCK_MONOTONIC it keeps counting while the machine is
/// suspended, so a lease does not look fresh after a lid was opened. A paused or migrated virtual
/// machine stops its guest's clocks; no clock inside the guest can notice that.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Tokio { origin: tokio::time::Instant, slept: Arc<AtomicU64> },
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock: CLOCK_BOOTTIME on Linux, the nearest monotonic clock elsewhere.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Tokio's clock, which tests can pause and advance. Clones share one origin; instants of two
    /// separately made tokio clocks must not be compared.
    #[must_use]
    pub fn tokio() -> Self {
        Self::jumping().0
    }

    /// Tokio's clock, which besides jumps forward when its [`ManualClock`] says so, and tokio's timers don't:
    /// as after a suspend of the machine. For tests of those.
    #[must_use]
    pub fn jumping() -> (Self, ManualClock) {
        let slept = Arc::new(AtomicU64::new(0));
        let origin = tokio::time::Instant::now();
        (Self(Source::Tokio { origin, slept: Arc::clone(&slept) }), ManualClock(slept))
    }

    /// A clock that moves only when its [`ManualClock`] says so, for tests of clock jumps.
    #[must_use]
    pub fn manual() -> (Self, ManualClock) {
        // Not zero: the origin means "already over".
        let nanos = Arc::new(AtomicU64::new(1_000_000_000));
        (Self(Source::Manual(Arc::clone(&nanos))), ManualClock(nanos))
    }

    /// The present instant.
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => system_now(),
            Source::Tokio { origin, slept } => {
                // The offset keeps instants before the origin representable.
                let start = Instant(1_000_000_000u64.saturating_add(slept.load(Ordering::Acquire)));
                start.plus(tokio::time::Instant::now().duration_since(*origin))
            }
            Source::Manual(nanos) => Instant(nanos.load(Ordering::Acquire)),
        }
    }
}

impl Clock {
    /// The present instant, unless this thread is being torn down and the clock is gone with it.
    pub(crate) fn try_now(&self) -> Option<Instant> {
        let is_gone = matches!(self.0, Source::Tokio { .. })
            && tokio::runtime::Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
        (!is_gone).then(|| self.now())
    }
}

/// Moves a clock made by [`Clock::manual`] or [`Clock::jumping`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(nanos(by), Ordering::AcqRel);
    }
}

/// When to give up. [`Deadline::NEVER`] waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(Instant);

impl Deadline {
    /// No deadline.
    pub const NEVER: Self = Self(Instant::FAR);

    /// The deadline at `instant`.
    #[must_use]
    pub const fn at(instant: Instant) -> Self {
        Self(instant)
    }

    /// The deadline `after` from now.
    #[must_use]
    pub fn after(clock: &Clock, after: Duration) -> Self {
        Self(clock.now().plus(after))
    }

    /// Whether the deadline has come.
    #[must_use]
    pub fn is_past(self, clock: &Clock) -> bool {
        self != Self::NEVER && clock.now() >= self.0
    }

    /// Time left, zero when past; `None` for [`Deadline::NEVER`].
    #[must_use]
    pub fn remaining(self, clock: &Clock) -> Option<Duration> {
        (self != Self::NEVER).then(|| self.0.since(clock.now()))
    }

    /// The instant, or [`Instant::FAR`] for [`Deadline::NEVER`].
    #[must_use]
    pub const fn instant(self) -> Instant {
        self.0
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(target_os = "linux")]
fn system_now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Boot time is never negative, and its nanoseconds are below 10^9.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[cfg(not(target_os = "linux"))]
fn system_now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_saturate_at_both_ends() {
        assert_eq!(Instant::ORIGIN.minus(Duration::from_secs(1)), Instant::ORIGIN);
        assert_eq!(Instant::FAR.plus(Duration::from_secs(1)), Instant::FAR);
        assert_eq!(Instant::ORIGIN.since(Instant::FAR), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time() {
        let clock = Clock::tokio();
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(clock.now().since(before), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_adds_to_paused_time() {
        let (clock, hand) = Clock::jumping();
        let before = clock.now();
        hand.advance(Duration::from_secs(5));
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(clock.now().since(before), Duration::from_secs(12));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_clock_counts_from_boot_and_includes_suspend() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
        let now = Duration::from_nanos(Clock::system().now().as_nanos()).as_secs_f64();
        assert!((now - uptime).abs() < 60.0, "clock {now}, uptime {uptime}");
    }

    #[test]
    fn never_is_never_past() {
        let (clock, hand) = Clock::manual();
        let soon = Deadline::after(&clock, Duration::from_secs(1));
        hand.advance(Duration::from_secs(2));
        assert!(soon.is_past(&clock));
        assert!(!Deadline::NEVER.is_past(&clock));
        assert_eq!(Deadline::NEVER.remaining(&clock), None);
    }
}
