//! How a client works.

use crate::metadata::Metadata;
use crate::namespace::Namespace;
use crate::options::LockOptions;

/// How a [`LockClient`](crate::LockClient) works.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Prefix of every key. Default: none.
    pub namespace: Option<Namespace>,
    /// What to store about holders. Default: host name and process id.
    pub metadata: Metadata,
    /// Most callers that may wait for locks of this client at once; one more is refused with
    /// `Overloaded`. Default: 65 536.
    pub max_waiters: usize,
    /// Options of [`lock`](crate::LockClient::lock) and [`try_lock`](crate::LockClient::try_lock).
    pub defaults: LockOptions,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            namespace: None,
            metadata: Metadata::of_this_process(),
            max_waiters: 65_536,
            defaults: LockOptions::default(),
        }
    }
}

impl ClientOptions {
    /// Sets the prefix of every key.
    #[must_use]
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Sets what to store about holders; [`Metadata::NONE`] stores nothing.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets how many callers may wait at once.
    #[must_use]
    pub const fn max_waiters(mut self, most: usize) -> Self {
        self.max_waiters = most;
        self
    }

    /// Sets the options of calls that give none.
    #[must_use]
    pub fn defaults(mut self, defaults: LockOptions) -> Self {
        self.defaults = defaults;
        self
    }
}
