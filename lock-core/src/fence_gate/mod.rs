//! Where fencing tokens are checked: at the resource that the lock protects.

mod file;
mod memory;

use async_trait::async_trait;

pub use self::file::FencedFile;
pub use self::memory::MemoryGate;
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::fencing::FencingToken;
use crate::key::LockKey;

/// Remembers the highest token seen for each key and refuses lower ones.
///
/// A token equal to the highest is admitted: a holder may write more than once. The check and the
/// write it protects must be one atomic step of the resource, or the gate must itself be the
/// resource; a check followed by a write can be interrupted between the two.
#[async_trait]
pub trait FenceGate: Send + Sync {
    /// Admits the token and remembers it.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if a higher token was seen before: whoever holds this one lost its lock.
    async fn admit(&self, key: &LockKey, token: FencingToken) -> Result<()>;
}

/// The refusal of a token below `highest`.
#[must_use]
pub fn stale_token(key: &LockKey, token: FencingToken, highest: FencingToken) -> Error {
    Error::new(
        ErrorKind::Lost,
        format!("token {token} is refused: token {highest} was seen, so the lock went to a later holder"),
    )
    .with_effect(Effect::None)
    .in_operation(Operation::Fence)
    .for_key(key)
}
