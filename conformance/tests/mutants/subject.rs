//! The toy store as a subject of the suite, with the ways to hurt it.

use std::sync::Arc;
use std::time::Duration;

use distlock_conformance::{FaultAbilities, Faults, Subject};
use distlock_core::{BackendInfo, Clock, LockBackend, LockKey, Operation, Result};

use crate::flaw::Flaw;
use crate::toy::Toy;

/// A store with one flaw, or none.
pub(crate) struct Mutant(pub(crate) Arc<Toy>);

#[async_trait::async_trait]
impl Subject for Mutant {
    fn info(&self) -> BackendInfo {
        self.0.info.clone()
    }
    async fn connect(&self, _url: &str) -> Result<Arc<dyn LockBackend>> {
        // One more try of a case, whose clients are gone: theirs is not to be told from a fresh store.
        if self.0.is(Flaw::NeverReconnects) && Arc::strong_count(&self.0) == 1 {
            self.0.state().outage = false;
        }
        Ok(Arc::<Toy>::clone(&self.0))
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
}

#[async_trait::async_trait]
impl Faults for Mutant {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE
            .expire_now()
            .prune()
            .restart()
            .restart_wiped()
            .tokens_outlive_data()
            .slow_answers()
            .lose_answer()
            .outage()
            .silence()
    }
    async fn expire_now(&self, key: &LockKey) {
        let name = self.0.name(key);
        if let Some(hold) = self.0.state().records.get_mut(&name).and_then(|record| record.holder.as_mut()) {
            hold.deadline = Clock::system().now();
        }
    }
    async fn prune(&self) {
        let mut state = self.0.state();
        state.records.retain(|_, record| record.holder.is_some() || !record.queue.is_empty());
        if self.0.is(Flaw::TokenGoesWithPruning) {
            state.tokens.clear();
        }
    }
    async fn restart(&self) {
        let mut state = self.0.state();
        if self.0.is(Flaw::HoldsGoWithARestart) {
            state.records.clear();
        }
        if self.0.is(Flaw::TokensGoWithTheData) {
            state.tokens.clear();
        }
    }
    async fn restart_wiped(&self) {
        let mut state = self.0.state();
        state.records.clear();
        // A sound store's tokens have a clock for a floor, so that they outlive their counters.
        if self.0.is(Flaw::TokensGoWithTheData) {
            state.tokens.clear();
        }
    }
    async fn silence(&self) {
        self.0.state().silent = true;
    }
    async fn silence_answers(&self) {
        self.0.state().mute = true;
    }
    async fn slow_answers(&self, by: Duration) {
        self.0.state().slow_by = by;
    }
    async fn lose_answer(&self, operation: Operation) {
        self.0.state().losing = Some(operation);
    }
    async fn outage(&self) {
        self.0.state().outage = true;
    }
    async fn heal(&self) {
        let mut state = self.0.state();
        (state.slow_by, state.losing) = (Duration::ZERO, None);
        (state.silent, state.mute) = (false, false);
        if !self.0.is(Flaw::NeverReconnects) {
            state.outage = false;
        }
    }
}
