//! What a backend's author tells the suite.

use std::sync::Arc;

use async_trait::async_trait;
use distlock_core::{BackendInfo, LockBackend, Result};

use crate::faults::Faults;

/// A store to be tested: what a backend's author implements.
#[async_trait]
pub trait Subject: Send + Sync + 'static {
    /// The backend's promises and abilities, from which the cases are chosen. Needs no server.
    fn info(&self) -> BackendInfo;

    /// Opens one more connection to the store at `url`, which is what [`Subject::url`] says. Every
    /// call is a client of its own: two connections share nothing but the store.
    ///
    /// A store that lives in this process gives out the same backend each time.
    ///
    /// # Errors
    /// Those of the backend. The case that needed the connection fails with it.
    async fn connect(&self, url: &str) -> Result<Arc<dyn LockBackend>>;

    /// Where the store is. The suite starts further processes of this program and hands this on to
    /// their [`Subject::connect`], so that they reach the same store.
    fn url(&self) -> String {
        String::new()
    }

    /// Whether the store can be reached at all; if not, why. Asked once before the first case.
    ///
    /// # Errors
    /// What is missing and how to provide it. All cases then show as ignored, or, with
    /// `CONFORMANCE_REQUIRE=1` in the environment, as failed.
    fn available(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Ways to hurt the store, for the cases that no decorator around the backend can stage.
    fn faults(&self) -> Option<&dyn Faults> {
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use distlock_core::MemoryBackend;

    use super::*;

    /// A subject for the suite's own tests.
    #[derive(Default)]
    pub(crate) struct Memory {
        backend: Arc<MemoryBackend>,
        missing: bool,
    }

    impl Memory {
        pub(crate) fn missing() -> Self {
            Self { missing: true, ..Self::default() }
        }
    }

    #[async_trait]
    impl Subject for Memory {
        fn info(&self) -> BackendInfo {
            self.backend.info().clone()
        }
        async fn connect(&self, _url: &str) -> Result<Arc<dyn LockBackend>> {
            Ok(Arc::<MemoryBackend>::clone(&self.backend))
        }
        fn available(&self) -> std::result::Result<(), String> {
            if self.missing { Err("start it first".to_owned()) } else { Ok(()) }
        }
    }
}
