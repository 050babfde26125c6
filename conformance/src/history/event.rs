//! What happened, as one line each.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

use distlock_core::Instant;
use serde::{Deserialize, Serialize};

/// One thing that happened to one claim. Instants are nanoseconds on the store's clock, which all
/// processes that share the store have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// When: read before a call leaves and after its answer arrived.
    pub at: u64,
    /// The process that saw it, by a number of its own.
    pub process: u32,
    /// The key, in its escaped form; empty where no key is concerned.
    pub key: String,
    /// The claim's owner; empty where no claim is concerned.
    pub owner: String,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

impl Event {
    /// An event of this process.
    #[must_use]
    pub fn new(at: Instant, key: impl ToString, owner: impl ToString, what: What) -> Self {
        Self { at: at.as_nanos(), process: process(), key: key.to_string(), owner: owner.to_string(), what }
    }
}

/// A number that no other process has. The system's ids come again, in a long run of many short processes within minutes.
pub(super) fn process() -> u32 {
    static NUMBER: LazyLock<u32> = LazyLock::new(|| {
        let [first, second, third, fourth, ..] =
            RandomState::new().hash_one(std::process::id()).to_ne_bytes();
        u32::from_ne_bytes([first, second, third, fourth])
    });
    *NUMBER
}

/// The kinds of event. `op` links a call to its answer; a call without an answer was dropped, or its
/// process was killed. `ttl`, `patience`, `left` and `delay` are durations and `until` and `valid_until`
/// instants, all in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "a new kind of event must break every check")]
#[expect(missing_docs, reason = "the fields are explained once, above")]
pub enum What {
    /// An attempt left; `queue` if it joins the store's queue when busy, `handed` if it takes the lock
    /// over from the holder, past the queue.
    Ask {
        op: u64,
        queue: bool,
        #[serde(default)]
        handed: bool,
        ttl: u64,
    },
    /// The attempt holds the lock.
    Granted { op: u64, token: u64, ttl: u64, valid_until: u64 },
    /// Somebody else holds it.
    Busy { op: u64 },
    /// The attempt failed or was dropped; `unknown` if it may have had an effect.
    AskFailed { op: u64, unknown: bool },
    /// A renewal left.
    Renew { op: u64, ttl: u64 },
    /// The lease goes on.
    Renewed { op: u64, valid_until: u64 },
    /// The lease is over.
    RenewLost { op: u64 },
    /// The renewal failed or was dropped.
    RenewFailed { op: u64 },
    /// A release left, `handed` if it passes the lock on: then the answer does not say whether it was held.
    /// From here on the holder does not rely on the lock.
    Unlock {
        op: u64,
        #[serde(default)]
        handed: bool,
    },
    /// The store answered the release.
    Unlocked { op: u64, released: bool },
    /// The store passed nothing on, and the lock is as it was.
    Kept { op: u64 },
    /// The release failed or was dropped.
    UnlockFailed { op: u64 },
    /// An operator began to take the lock away.
    Force { op: u64 },
    /// An operator took the lock away.
    Forced { op: u64 },
    /// That failed or was dropped.
    ForceFailed { op: u64 },
    /// A look into the store left.
    Look { op: u64 },
    /// What the store showed: the holder and the time it has left.
    Seen { op: u64, holder: Option<String>, token: Option<u64>, left: Option<u64> },
    /// The look failed or was dropped.
    LookFailed { op: u64 },
    /// A caller began to wait, for at most `patience`.
    Wait { op: u64, patience: Option<u64> },
    /// The caller's wait ended, in whatever way.
    Waited { op: u64 },
    /// A guard said until when it is valid.
    Valid { until: u64 },
    /// A guard was asked whether it is valid (`at`), and after that until when.
    Checked { valid: bool, until: u64 },
    /// Somebody began to wait for the guard's loss.
    Watching,
    /// Nobody waits for it any more: the guard was given back, or its owner left it.
    Unwatched,
    /// The guard announced its loss; `until` is its validity as read then.
    Lost { until: u64 },
    /// A write reached a resource as its `seq`-th: the value read before plus one.
    Write { resource: String, fenced: bool, seq: u64, token: u64, value: u64, accepted: bool },
    /// The store is stopped, or restarted: from here on it may not serve.
    Down,
    /// It serves again.
    Up,
    /// The recording ended; `delay` is the longest scheduling delay measured.
    End { delay: u64 },
}

impl What {
    /// The call to the store that left, if this is one.
    pub(crate) const fn left(&self) -> Option<u64> {
        match self {
            Self::Ask { op, .. }
            | Self::Renew { op, .. }
            | Self::Unlock { op, .. }
            | Self::Force { op }
            | Self::Look { op } => Some(*op),
            _ => None,
        }
    }

    /// The call that this is the answer to, if it is one.
    pub(crate) const fn answered(&self) -> Option<u64> {
        match self {
            Self::Granted { op, .. }
            | Self::Busy { op }
            | Self::AskFailed { op, .. }
            | Self::Renewed { op, .. }
            | Self::RenewLost { op }
            | Self::RenewFailed { op }
            | Self::Unlocked { op, .. }
            | Self::Kept { op }
            | Self::UnlockFailed { op }
            | Self::Forced { op }
            | Self::ForceFailed { op }
            | Self::LookFailed { op }
            | Self::Seen { op, .. } => Some(*op),
            _ => None,
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
