//! What a scripted probe is told, and what it answers: one line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One order. A probe holds one lock at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "a new order must be obeyed")]
#[expect(missing_docs, reason = "the fields are durations in milliseconds, counts and keys")]
pub enum Order {
    /// Take a lock, waiting at most so long.
    Lock { key: String, ttl: u64, wait: u64 },
    /// Read the registers of the lock that is held, fenced and unfenced.
    Read,
    /// Write them, increased, whatever the guard says.
    Write,
    /// Say how the guard stands.
    State,
    /// Give the lock back.
    Unlock,
    /// Begin so many waits for one key; whoever gets it counts in both registers and gives it back.
    Wait { key: String, ttl: u64, waiters: u64 },
    /// Say how many of them have been served, and how many have failed.
    Served,
    /// Take and give back one key after the other, until a call fails or the time is over.
    Churn { prefix: String, ttl: u64, within: u64 },
    /// Say what the wall clock shows, in milliseconds since 1970.
    Clock,
    /// Ask the store how it is, which connects to each of its servers.
    Probe,
    /// Say which locks are held or waited for whose keys begin like this.
    List { prefix: String },
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "it answers an order")]
#[expect(missing_docs, reason = "the fields speak for themselves")]
pub enum Answer {
    Ready,
    Held { token: u64 },
    Busy,
    Failed { text: String },
    Read,
    Wrote { fenced: bool, unfenced: bool },
    State { valid: bool, lost: bool },
    Unlocked { released: bool },
    Waiting,
    Served { served: u64, failed: u64 },
    Churned { rounds: u64, failed: Option<String> },
    Clock { millis: u64 },
    Listed { locks: Vec<String> },
}

/// What a scripted probe has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Summons {
    pub(super) url: String,
    pub(super) folder: PathBuf,
}

impl Summons {
    pub(super) const VARIABLE: &str = "DISTLOCK_SCRIPTED_PROBE";
}
