//! The suite on the reference backend.

use std::process::ExitCode;
use std::sync::Arc;

use distlock_conformance::{FaultAbilities, Faults, Subject};
use distlock_core::{BackendInfo, LockBackend, LockKey, MemoryBackend, Operation, Result};

struct Memory(Arc<MemoryBackend>);

#[async_trait::async_trait]
impl Subject for Memory {
    fn info(&self) -> BackendInfo {
        self.0.info().clone()
    }
    async fn connect(&self, _url: &str) -> Result<Arc<dyn LockBackend>> {
        Ok(Arc::<MemoryBackend>::clone(&self.0))
    }
    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
}

#[async_trait::async_trait]
impl Faults for Memory {
    fn abilities(&self) -> FaultAbilities {
        FaultAbilities::NONE.expire_now().lose_answer().outage()
    }
    async fn expire_now(&self, key: &LockKey) {
        self.0.expire_now(key);
    }
    async fn lose_answer(&self, operation: Operation) {
        self.0.faults().drop_reply(operation);
    }
    async fn outage(&self) {
        self.0.faults().silence(true);
    }
    async fn heal(&self) {
        self.0.faults().clear();
    }
}

fn main() -> ExitCode {
    distlock_conformance::main(Memory(Arc::new(MemoryBackend::new())))
}
