//! What a store promises, and how it is.

use distlock::{BackendInfo, Exclusion, ExpiryClock, Fairness, FenceScope, Health, Supports, Warning};
use serde::Serialize;

use super::table::pairs;
use super::{Report, millis};
use crate::durations::exactly;

/// A store, with its promises and its health.
#[derive(Debug, Serialize)]
pub(crate) struct Store {
    store: &'static str,
    url: String,
    guarantees: Promises,
    supports: Supports,
    health: State,
    #[serde(skip)]
    ttls: String,
}

#[derive(Debug, Serialize)]
struct Promises {
    exclusion: Exclusion,
    fencing: FenceScope,
    fairness: Fairness,
    expiry: ExpiryClock,
    ttl_grain_ms: u64,
    ttl_min_ms: u64,
    ttl_max_ms: u64,
    survives_restart: bool,
    survives_failover: bool,
}

#[derive(Debug, Serialize)]
struct State {
    version: Option<String>,
    round_trip_us: u64,
    warnings: Vec<Warning>,
}

impl Store {
    pub(crate) fn new(url: String, info: &BackendInfo, health: Health) -> Self {
        let promised = &info.guarantees;
        Self {
            store: info.name,
            url,
            guarantees: Promises {
                exclusion: promised.exclusion,
                fencing: promised.fencing,
                fairness: promised.fairness,
                expiry: promised.expiry,
                ttl_grain_ms: millis(promised.ttl_grain),
                ttl_min_ms: millis(promised.ttl_min),
                ttl_max_ms: millis(promised.ttl_max),
                survives_restart: promised.survives_restart,
                survives_failover: promised.survives_failover,
            },
            supports: info.supports,
            health: State {
                version: health.version,
                round_trip_us: u64::try_from(health.round_trip.as_micros()).unwrap_or(u64::MAX),
                warnings: health.warnings,
            },
            ttls: format!("from {}, in steps of {}", exactly(promised.ttl_min), exactly(promised.ttl_grain)),
        }
    }
}

impl Report for Store {
    fn text(&self) -> String {
        let promised = &self.guarantees;
        let after = |held: bool| if held { "still held" } else { "not held any more" }.to_owned();
        let abilities: Vec<&str> =
            self.supports.named().into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
        let mut text = pairs([
            ("store", self.store.to_owned()),
            ("url", self.url.clone()),
            ("version", self.health.version.clone().unwrap_or_else(|| "-".to_owned())),
            ("round trip", format!("{} µs", self.health.round_trip_us)),
            ("exclusion", promised.exclusion.describe().to_owned()),
            ("tokens", survival(promised.fencing).to_owned()),
            ("waiters", order(promised.fairness).to_owned()),
            ("leases end by", promised.expiry.describe().to_owned()),
            ("ttl", self.ttls.clone()),
            ("after a restart", after(promised.survives_restart)),
            (
                "after a failover",
                if promised.survives_failover { "still held" } else { "no promise" }.to_owned(),
            ),
            ("can", abilities.join(", ")),
        ]);
        for warning in &self.health.warnings {
            text.push_str(&format!("warning: {}; {}\n", warning.what, warning.fix));
        }
        text
    }
}

const fn survival(scope: FenceScope) -> &'static str {
    match scope {
        FenceScope::BestEffort => "may fall at any time: not for fencing",
        FenceScope::Process => "rise within this process",
        FenceScope::Instance => "rise while the server keeps its data",
        FenceScope::Durable => "rise across a crash, a restart, a power cut",
        _ => "rise even when a server is lost",
    }
}

const fn order(fairness: Fairness) -> &'static str {
    match fairness {
        Fairness::Fifo => "first come, first served",
        _ => "in no order",
    }
}
