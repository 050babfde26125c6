//! What a probe is to do.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Random lock work over a few keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Work {
    /// The store; what it means is up to the program that is the probe.
    pub url: String,
    /// Where the histories and the registers of all probes of one run are.
    pub folder: PathBuf,
    /// Decides the probe's choices.
    pub seed: u64,
    /// The keys (default: three).
    pub keys: Vec<String>,
    /// A key that no other probe has, for one contender more (default: none). Nothing but a trouble keeps the probe
    /// from its lock.
    pub own: Option<String>,
    /// How many contend at a time (default: 3).
    pub contenders: u64,
    /// The ttl of the locks (default: 1 s).
    pub ttl: Duration,
    /// How long a contender waits at most (default: 3 s).
    pub patience: Duration,
}

impl Work {
    pub(super) const VARIABLE: &str = "DISTLOCK_PROBE";

    /// Work on the store at `url`, whose history goes into `folder`.
    #[must_use]
    pub fn new(url: impl Into<String>, folder: impl Into<PathBuf>, seed: u64) -> Self {
        Self {
            url: url.into(),
            folder: folder.into(),
            seed,
            keys: ["one", "two", "three"].map(str::to_owned).into(),
            own: None,
            contenders: 3,
            ttl: Duration::from_secs(1),
            patience: Duration::from_secs(3),
        }
    }

    /// Sets the keys. Runs on one store keep apart by them.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.keys = keys.into_iter().collect();
        self
    }

    /// Sets the ttl.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    pub(super) fn asked() -> Self {
        let text = std::env::var(Self::VARIABLE).expect("this process was started as a probe");
        serde_json::from_str(&text).expect("the parent wrote it")
    }
}
