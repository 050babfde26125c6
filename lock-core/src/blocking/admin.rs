//! Looking at locks and taking them away, by calls that block.

use super::thread::ClientThread;
use crate::admin::{self, LockRecord};
use crate::error::Result;
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::outcome::Holder;

/// What operators do, by calls that block the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct LockAdmin<'a> {
    admin: &'a dyn admin::LockAdmin,
    thread: &'a ClientThread,
}

impl<'a> LockAdmin<'a> {
    pub(super) const fn new(admin: &'a dyn admin::LockAdmin, thread: &'a ClientThread) -> Self {
        Self { admin, thread }
    }

    /// As [the asynchronous one](crate::LockAdmin::inspect).
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        self.thread.block_on(self.admin.inspect(key))
    }

    /// As [the asynchronous one](crate::LockAdmin::list).
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        self.thread.block_on(self.admin.list(prefix, after, limit))
    }

    /// As [the asynchronous one](crate::LockAdmin::force_unlock).
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        self.thread.block_on(self.admin.force_unlock(key))
    }

    /// As [the asynchronous one](crate::LockAdmin::raise_token_floor).
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Panics
    /// On a thread that drives async tasks.
    #[track_caller]
    pub fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        self.thread.block_on(self.admin.raise_token_floor(floor))
    }
}
