//! What the suite tells a holder process, and what it answers: one JSON line each.

use distlock_core::{FencingToken, Lease, OwnerId};
use serde::{Deserialize, Serialize};

/// One order. Locks and leases are those of one guard at a time.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Take `key` (escaped), waiting at most `wait_ms`, for ever if there is none.
    Lock { key: String, ttl_ms: u64, wait_ms: Option<u64> },
    /// Give the lock back.
    Unlock,
    /// Say how the guard stands.
    State,
    /// Read both registers, to write them later.
    Read,
    /// Write what was read, plus one.
    Write,
    /// `rounds` times: lock, read both registers, write them increased, unlock.
    Count { key: String, ttl_ms: u64, rounds: u64 },
    /// Lock, read, write and unlock until the process is killed, whatever goes wrong.
    Churn { key: String, ttl_ms: u64 },
    /// Turn the guard into a lease.
    GiveAway,
    /// Turn a lease into a guard.
    Adopt { lease: Lease },
    /// Shut the client down and end the process.
    Shutdown,
}

/// One answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Answer {
    Ready,
    Held { owner: OwnerId, token: FencingToken },
    Busy,
    Failed { text: String },
    Unlocked { released: bool },
    State { valid: bool, lost: bool },
    Read { value: u64 },
    Wrote { fenced: bool },
    Counted,
    Lease { lease: Lease },
    ShutDown { unreleased: usize },
}

/// How a holder process learns that it is one: the value of this variable is a [`Summons`].
pub(crate) const VARIABLE: &str = "DISTLOCK_CONFORMANCE_HOLDER";

/// What a holder process needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Summons {
    pub(crate) url: String,
    /// Where the registers and the history are.
    pub(crate) folder: std::path::PathBuf,
}
