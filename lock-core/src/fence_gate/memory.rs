//! A gate inside the process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::{FenceGate, stale_token};
use crate::error::Result;
use crate::fencing::FencingToken;
use crate::key::LockKey;

/// A gate for resources inside this process. It keeps one number for every key it has seen.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock_core::Result<()> {
/// use distlock_core::{FenceGate, LockKey, MemoryGate};
/// let (gate, key) = (MemoryGate::default(), LockKey::new("account")?);
/// gate.admit(&key, 8_u64.try_into()?).await?;
/// assert!(gate.admit(&key, 7_u64.try_into()?).await.unwrap_err().is_lost());
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct MemoryGate {
    highest: Mutex<HashMap<LockKey, FencingToken>>,
}

impl MemoryGate {
    /// Admits the token, then runs `write`, as one step.
    ///
    /// # Errors
    /// As [`FenceGate::admit`]; `write` is not run then.
    pub fn write<T>(&self, key: &LockKey, token: FencingToken, write: impl FnOnce() -> T) -> Result<T> {
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        match highest.get(key) {
            Some(seen) if *seen > token => Err(stale_token(key, token, *seen)),
            _ => {
                highest.insert(key.clone(), token);
                Ok(write())
            }
        }
    }
}

#[async_trait]
impl FenceGate for MemoryGate {
    async fn admit(&self, key: &LockKey, token: FencingToken) -> Result<()> {
        self.write(key, token, || ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_write_does_not_run() {
        let (gate, key) = (MemoryGate::default(), LockKey::new("k").unwrap());
        let token = |n: u64| FencingToken::new(n).unwrap();
        assert_eq!(gate.write(&key, token(2), || 1).unwrap(), 1);
        assert_eq!(gate.write(&key, token(2), || 2).unwrap(), 2, "the same holder again");
        let error = gate.write(&key, token(1), || unreachable!()).unwrap_err();
        assert!(error.to_string().contains('2') && error.is_lost());
        assert!(gate.write(&LockKey::new("other").unwrap(), token(1), || ()).is_ok());
    }
}
