//! The machine as the store sees it: its clocks, and in which epoch deadlines are comparable.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use distlock_core::{Clock, Error, ErrorKind, Instant, Result};

/// A machine's clocks.
///
/// Deadlines stand in the store as (epoch, boot time). Two processes may compare boot times only if
/// they run under one boot of one kernel and in time namespaces of one offset; the epoch names both.
#[derive(Clone, Debug)]
pub struct Machine {
    epoch: Arc<str>,
    clock: Clock,
    wall: WallClock,
}

/// The two times a statement is sent at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Boot time, which decides about expiry.
    pub(super) now: Instant,
    /// Microseconds since 1970, which serve as the floor of tokens and for nothing else.
    pub(super) wall_micros: i64,
}

impl Moment {
    /// Boot time as a database column has it.
    pub(super) fn nanos(self) -> i64 {
        i64::try_from(self.now.as_nanos()).unwrap_or(i64::MAX)
    }
}

impl Machine {
    /// This machine.
    ///
    /// # Errors
    /// [`ErrorKind::Misconfigured`] if the system does not say which boot this is.
    pub fn this() -> Result<Self> {
        Ok(Self { epoch: Arc::from(epoch()?), clock: Clock::system(), wall: WallClock::System })
    }

    /// A machine with clocks and epoch of a test's choice.
    #[must_use]
    pub fn simulated(epoch: &str, clock: Clock, wall: &ManualWallClock) -> Self {
        Self { epoch: Arc::from(epoch), clock, wall: WallClock::Manual(wall.clone()) }
    }

    pub(super) fn epoch(&self) -> Arc<str> {
        Arc::clone(&self.epoch)
    }

    pub(super) const fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn moment(&self) -> Moment {
        Moment { now: self.clock.now(), wall_micros: self.wall.micros() }
    }
}

#[derive(Clone, Debug)]
enum WallClock {
    System,
    Manual(ManualWallClock),
}

impl WallClock {
    fn micros(&self) -> i64 {
        match self {
            Self::System => system_micros(),
            Self::Manual(clock) => clock.0.load(Ordering::Acquire),
        }
    }
}

/// A wall clock that a test sets.
#[derive(Clone, Debug)]
pub struct ManualWallClock(Arc<AtomicI64>);

impl ManualWallClock {
    /// A clock that shows the present time until it is moved.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(system_micros())))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::AcqRel);
    }

    /// Sets the clock back.
    pub fn set_back(&self, by: Duration) {
        self.0.fetch_sub(micros(by), Ordering::AcqRel);
    }

    /// What the clock shows.
    #[must_use]
    pub fn micros(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Default for ManualWallClock {
    fn default() -> Self {
        Self::new()
    }
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the floor of tokens, which no deadline depends on")]
fn system_micros() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, micros)
}

#[cfg(target_os = "linux")]
fn epoch() -> Result<String> {
    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
    let boot = std::fs::read_to_string(BOOT_ID).map_err(|source| {
        Error::new(
            ErrorKind::Misconfigured,
            format!(
                "can't tell which boot of the machine this is; make {BOOT_ID} readable (is /proc mounted?)"
            ),
        )
        .caused_by(source)
    })?;
    Ok(epoch_name(boot.trim(), &time_namespace()))
}

/// Elsewhere no boot id is at hand. A deadline of an earlier boot is then either in the past only
/// if the machine has been up for longer than the lease, or is cut to now + ttl: late, never early.
#[cfg(not(target_os = "linux"))]
fn epoch() -> Result<String> {
    Ok(epoch_name("boot", "0"))
}

fn epoch_name(boot: &str, namespace: &str) -> String {
    format!("{boot}/{namespace}")
}

/// By how much this process's boot time is shifted against the kernel's, as a name.
#[cfg(target_os = "linux")]
fn time_namespace() -> String {
    let own = std::fs::read_link("/proc/self/ns/time");
    let childrens = std::fs::read_link("/proc/self/ns/time_for_children");
    if let (Ok(own), Ok(childrens)) = (&own, &childrens)
        && own != childrens
    {
        // The offsets file speaks of the children's namespace, so name this one by its number.
        return own.display().to_string();
    }
    // No such file: a kernel without time namespaces, so no shift.
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    boot_time_offset(&offsets)
}

#[cfg(target_os = "linux")]
fn boot_time_offset(offsets: &str) -> String {
    offsets
        .lines()
        .find_map(|line| line.strip_prefix("boottime"))
        .map(|rest| rest.split_whitespace().collect::<Vec<_>>().join("."))
        .map_or_else(|| "0".to_owned(), |offset| offset.strip_suffix(".0").unwrap_or(&offset).to_owned())
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.epoch)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_names_boot_and_namespace() {
        assert_eq!(
            boot_time_offset("monotonic           0         0\nboottime         1000         0\n"),
            "1000"
        );
        assert_eq!(boot_time_offset("monotonic 0 0\nboottime -5 500000000\n"), "-5.500000000");
        assert_eq!(boot_time_offset("monotonic 0 0\nboottime 0 0\n"), "0");
        assert_eq!(boot_time_offset(""), "0");
        let epoch = epoch().unwrap();
        assert!(epoch.len() > 37, "{epoch}");
        assert_eq!(epoch, super::epoch().unwrap());
    }
}
