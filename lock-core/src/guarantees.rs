//! What a backend promises and what it can do, as data.

use std::fmt::Write;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::fencing::FenceScope;
use crate::supports::Supports;

/// A backend's name, promises and abilities: one value from which the documentation's table, the
/// `info` command, the choice of conformance cases and [`LockClient::require`](crate::LockClient::require) read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BackendInfo {
    /// Short name, as it stands in errors, spans and reports.
    pub name: &'static str,
    /// What it promises.
    pub guarantees: Guarantees,
    /// What it can do beyond the required operations.
    pub supports: Supports,
    /// At most so many leases are given to one `renew_many`, which has a sixth of their ttl, and 2 s at
    /// most, for all of them.
    pub renew_batch: usize,
}

impl BackendInfo {
    /// What one `renew_many` takes unless the backend says otherwise.
    pub const RENEW_BATCH: usize = 1000;

    /// The description of a backend.
    #[must_use]
    pub const fn new(name: &'static str, guarantees: Guarantees, supports: Supports) -> Self {
        Self { name, guarantees, supports, renew_batch: Self::RENEW_BATCH }
    }

    /// Sets how many leases one `renew_many` gets, for a store that has to go to several places for them.
    #[must_use]
    pub const fn renew_batch(mut self, leases: usize) -> Self {
        self.renew_batch = leases;
        self
    }
}

/// What a backend promises, under the assumptions its documentation names. The conformance suite
/// checks each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Guarantees {
    /// When two holders of one key are possible.
    pub exclusion: Exclusion,
    /// What tokens survive.
    pub fencing: FenceScope,
    /// In which order waiters are served.
    pub fairness: Fairness,
    /// Whose clock ends a lease.
    pub expiry: ExpiryClock,
    /// Ttls are rounded up to a multiple of this.
    pub ttl_grain: Duration,
    /// Shorter ttls are raised to this.
    pub ttl_min: Duration,
    /// Longer ttls are refused.
    pub ttl_max: Duration,
    /// Whether a held lock is still held after the store restarts with its data kept.
    pub survives_restart: bool,
    /// Whether a held lock is still held after another server takes over.
    pub survives_failover: bool,
    /// Whether a held lock is still held, until its ttl is over, after its holder's connections were closed.
    pub survives_disconnect: bool,
    /// Whether a claim that queues keeps its place for its ttl without being asked for again. Then its
    /// waiter asks rarely, where releases wake waiters by themselves.
    pub keeps_places: bool,
    /// How many locks one client can hold at once, where each takes up something that is scarce.
    pub held_most: Option<u32>,
}

impl Guarantees {
    /// The longest ttl any backend takes: 366 days.
    pub const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

    /// State in one process, gone with it.
    #[must_use]
    pub const fn single_process() -> Self {
        Self {
            exclusion: Exclusion::WhileDataLives,
            fencing: FenceScope::Process,
            fairness: Fairness::Fifo,
            expiry: ExpiryClock::Holder,
            ttl_grain: Duration::from_millis(1),
            ttl_min: Duration::from_millis(10),
            ttl_max: Self::TTL_MAX,
            survives_restart: false,
            survives_failover: false,
            survives_disconnect: true,
            keeps_places: false,
            held_most: None,
        }
    }

    /// One server, or one machine, that keeps its data durably.
    #[must_use]
    pub const fn single_node() -> Self {
        Self {
            exclusion: Exclusion::Always,
            fencing: FenceScope::Durable,
            fairness: Fairness::None,
            expiry: ExpiryClock::Server,
            ttl_grain: Duration::from_millis(1),
            ttl_min: Duration::from_millis(100),
            ttl_max: Self::TTL_MAX,
            survives_restart: true,
            survives_failover: false,
            survives_disconnect: true,
            keeps_places: false,
            held_most: None,
        }
    }

    /// A cluster that agrees on every grant.
    #[must_use]
    pub const fn consensus() -> Self {
        Self {
            fencing: FenceScope::Cluster,
            fairness: Fairness::Fifo,
            survives_failover: true,
            keeps_places: true,
            ..Self::single_node()
        }
    }

    /// The ttl a backend with these guarantees gives for a wish: rounded up to the grain, at least the floor.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOptions`] below 1 ms or above [`Guarantees::ttl_max`].
    pub fn effective_ttl(&self, wish: Duration) -> Result<Duration> {
        const LEAST: Duration = Duration::from_millis(1);
        if wish < LEAST {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                format!("a ttl of {wish:?} is too short; the least is {LEAST:?}"),
            ));
        }
        if wish > self.ttl_max {
            return Err(Error::new(
                ErrorKind::InvalidOptions,
                format!(
                    "a ttl of {} s is too long; the most is {} s",
                    wish.as_secs(),
                    self.ttl_max.as_secs()
                ),
            ));
        }
        // No ttl is longer than `ttl_max`, whose nanoseconds fit by far.
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let grain = nanos(self.ttl_grain).max(1);
        let rounded = Duration::from_nanos(nanos(wish).div_ceil(grain).saturating_mul(grain));
        Ok(rounded.max(self.ttl_min))
    }

    /// Checks that these guarantees are at least as strong as `wanted`, naming what is missing.
    /// Limits of ttls and numbers are not compared.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] with the list of missing promises.
    pub fn require(&self, wanted: &Self) -> Result<()> {
        let mut missing = Vec::new();
        let mut check = |met: bool, promise: &str| {
            if !met {
                missing.push(promise.to_owned());
            }
        };
        check(self.exclusion >= wanted.exclusion, &format!("exclusion: {}", wanted.exclusion.describe()));
        check(self.fencing >= wanted.fencing, &format!("fencing tokens that survive: {:?}", wanted.fencing));
        check(self.fairness >= wanted.fairness, "first come, first served");
        check(self.survives_restart || !wanted.survives_restart, "locks survive a restart of the store");
        check(self.survives_failover || !wanted.survives_failover, "locks survive a failover of the store");
        check(
            self.survives_disconnect || !wanted.survives_disconnect,
            "locks survive the end of their connection",
        );
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("the store does not promise what this program requires: {}", missing.join("; ")),
        ))
    }
}

/// When two holders of one key are possible, although the clients' clocks run within the margin and
/// each holder stops when its lock says so. Ordered from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Exclusion {
    /// After a failover, or when several servers lose data.
    BetweenFailovers,
    /// After the store lost its data.
    WhileDataLives,
    /// Never.
    Always,
}

impl Exclusion {
    /// One clause, for tables and error texts.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::BetweenFailovers => "one holder between failovers",
            Self::WhileDataLives => "one holder while the store's data lives",
            Self::Always => "one holder",
        }
    }
}

/// In which order waiters of one key are served. Ordered from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Fairness {
    /// In none: whoever asks first when the lock is free gets it. Waiters of one client have their order,
    /// and its own plain tries yield to them; another client's may pass them.
    None,
    /// In the order in which they queued; a plain try of any client yields to them.
    Fifo,
}

/// Whose clock ends a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ExpiryClock {
    /// The machine's that all holders run on.
    Holder,
    /// The server's wall clock.
    Server,
    /// A cluster leader's.
    Leader,
    /// A session's time-out. A grant may state a shorter ttl than was asked for, if the session gives
    /// no more, and a lease belongs to the connection that took it.
    Session,
}

impl ExpiryClock {
    /// One clause, for tables.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Holder => "this machine's monotonic clock",
            Self::Server => "the server's wall clock",
            Self::Leader => "the leader's clock",
            Self::Session => "the session's time-out",
        }
    }
}

/// The guarantees of several backends as a Markdown table, one row a backend.
#[must_use]
pub fn guarantees_table(infos: &[BackendInfo]) -> String {
    let mut table = String::from(
        "| store | exclusion | tokens survive | waiters | a lease ends by | ttl grain, floor | restart | failover | abilities |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for info in infos {
        let g = &info.guarantees;
        let abilities: Vec<_> =
            info.supports.named().iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        // Writing to a String can't fail.
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {:?}, {:?} | {} | {} | {} |",
            info.name,
            g.exclusion.describe(),
            match g.fencing {
                FenceScope::BestEffort => "nothing: may fall at any time",
                FenceScope::Process => "nothing beyond the process",
                FenceScope::Instance => "while the server keeps its data",
                FenceScope::Durable => "crash, restart, power cut",
                FenceScope::Cluster => "loss of a server",
            },
            match g.fairness {
                Fairness::Fifo => "first come, first served",
                Fairness::None => "no order",
            },
            g.expiry.describe(),
            g.ttl_grain,
            g.ttl_min,
            if g.survives_restart { "held" } else { "lost" },
            if g.survives_failover { "held" } else { "–" },
            abilities.join(", "),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttls_are_rounded_up_and_clamped_never_cut() {
        let mut guarantees = Guarantees::single_node();
        guarantees.ttl_grain = Duration::from_secs(1);
        let effective = |ms| guarantees.effective_ttl(Duration::from_millis(ms)).unwrap();
        assert_eq!(effective(1), Duration::from_secs(1));
        assert_eq!(effective(1001), Duration::from_secs(2));
        assert_eq!(effective(3000), Duration::from_secs(3));
    }

    #[test]
    fn absurd_ttls_are_refused() {
        let guarantees = Guarantees::single_process();
        for wish in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::MAX,
            Duration::from_secs(1_000_000 * 31_536_000),
        ] {
            assert_eq!(guarantees.effective_ttl(wish).unwrap_err().kind(), ErrorKind::InvalidOptions);
        }
    }

    #[test]
    fn require_names_what_is_missing() {
        let error = Guarantees::single_process().require(&Guarantees::consensus()).unwrap_err();
        assert!(error.to_string().contains("failover") && error.to_string().contains("Cluster"), "{error}");
        assert!(Guarantees::consensus().require(&Guarantees::single_node()).is_ok());
    }

    #[test]
    fn the_table_has_a_row_for_each_backend() {
        let info = BackendInfo::new("memory", Guarantees::single_process(), Supports::NONE.queue().push());
        assert_eq!(guarantees_table(&[info.clone(), info]).lines().count(), 4);
    }
}
