//! The floor of the memory store: a mutex of the runtime.

use distlock::{Result, StoreUrl};

use super::Floor;

/// Nothing. What is left is the mutex in which contenders queue: a lock without a key, a ttl, a
/// token or anybody to notice a holder's death.
#[derive(Debug)]
pub(crate) struct MemoryFloor;

impl Floor for MemoryFloor {
    const PAIRS_PER_READING: u32 = 64;

    async fn open(_: &StoreUrl) -> Result<Self> {
        Ok(Self)
    }

    fn another(&self) -> Option<Self> {
        Some(Self)
    }

    async fn acquire(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    async fn release(&mut self, _: usize) -> Result<()> {
        Ok(())
    }
}
