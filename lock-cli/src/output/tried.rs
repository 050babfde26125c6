//! The outcome of `try`.

use distlock::{Busy, FencingToken, LockGuard, LockKey, OwnerId};
use serde::Serialize;

use super::lock::HolderReport;
use super::table::pairs;
use super::{Report, millis};
use crate::durations::exactly;

/// Whether a lock was free.
#[derive(Debug, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub(crate) enum Tried {
    /// It was, and is again.
    Free {
        key: LockKey,
        token: FencingToken,
        owner: OwnerId,
        ttl_ms: u64,
        #[serde(skip)]
        ttl: String,
    },
    /// Somebody holds it or waits for it.
    Busy { key: LockKey, free_in_ms: Option<u64>, holder: Option<HolderReport> },
}

impl Tried {
    pub(crate) fn free(guard: &LockGuard) -> Self {
        Self::Free {
            key: guard.key().clone(),
            token: guard.token(),
            owner: guard.owner(),
            ttl_ms: millis(guard.ttl()),
            ttl: exactly(guard.ttl()),
        }
    }

    pub(crate) fn busy(key: &LockKey, busy: Option<&Busy>) -> Self {
        Self::Busy {
            key: key.clone(),
            free_in_ms: busy.and_then(|busy| busy.free_in).map(millis),
            holder: busy.and_then(|busy| busy.holder.clone()).map(HolderReport::from),
        }
    }
}

impl Report for Tried {
    fn text(&self) -> String {
        match self {
            Self::Free { key, token, owner, ttl, .. } => pairs([
                ("key", key.to_string()),
                ("status", "free; taken and released".to_owned()),
                ("owner", owner.to_string()),
                ("token", token.to_string()),
                ("ttl", ttl.clone()),
            ]),
            Self::Busy { key, holder, .. } => {
                let mut lines = vec![("key", key.to_string()), ("status", "busy".to_owned())];
                lines.extend(holder.iter().flat_map(HolderReport::lines));
                pairs(lines)
            }
        }
    }
}
