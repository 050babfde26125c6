//! A holder that stands still while servers are hurt, and then writes as if nothing had been.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_conformance::history::Recorder;
use distlock_conformance::recording::{Register, Tracked};
use distlock_core::{ExpiryClock, LockClient, LockGuard, LockKey, LockOptions, RenewPolicy, WaitPolicy};

/// How long a rival goes on trying. What was hurt before may still find together.
const AMPLE: Duration = Duration::from_secs(60);

/// A holder that has read what its lock protects and renews nothing, as one whose program is stopped. It shows that a
/// fault of the servers that is as long does harm where no fence is, without being left to chance.
#[derive(Debug)]
pub struct LateWriter {
    client: LockClient,
    ttl: Duration,
    guard: Tracked,
    log: Arc<Recorder>,
    fenced: Register,
    unfenced: Register,
    read: (u64, u64),
}

impl LateWriter {
    /// Takes the lock `key` by a client of its own, and reads the registers in `folder`.
    ///
    /// # Panics
    /// If it does not get the lock.
    pub async fn start(
        client: LockClient,
        key: &str,
        ttl: Duration,
        folder: &Path,
        log: &Arc<Recorder>,
    ) -> Self {
        let guard = Tracked::new(
            locked(&client, &LockKey::new(key).expect("the caller chose a good key"), ttl).await,
            log,
        );
        std::fs::create_dir_all(folder).expect("the folder is writable");
        let fenced = Register::fenced(folder, Arc::clone(log));
        let unfenced = Register::unfenced(folder, Arc::clone(log));
        let read = (fenced.read_for(guard.guard().token()), unfenced.read());
        Self { client, ttl, guard, log: Arc::clone(log), fenced, unfenced, read }
    }

    /// Lets `rival` have the lock and write, and then writes what it would have written before.
    ///
    /// # Panics
    /// If the fenced register takes that, or if no update of the unfenced one is lost: then the whole run is void.
    pub async fn write(self, rival: &LockClient) {
        self.guard.guard().lost().await;
        if self.client.info().guarantees.expiry == ExpiryClock::Session {
            // It is not stopped in truth, and so its session would go on.
            self.client.backend().close().await.expect("a session can be ended");
        }
        let next = locked(rival, self.guard.guard().key(), self.ttl).await;
        let next = Tracked::new(next, &self.log);
        let token = next.guard().token();
        let read = (self.fenced.read_for(token), self.unfenced.read());
        assert!(self.fenced.write(token, read.0 + 1), "the fence takes the write of the lock's holder");
        self.unfenced.write(token, read.1 + 1);
        let late = self.guard.guard().token();
        assert!(
            !self.fenced.write(late, self.read.0 + 1),
            "the fence refuses the write of who held it before"
        );
        self.unfenced.write(late, self.read.1 + 1);
        let lost = self.unfenced.lost_updates(&self.log.events());
        assert!(lost > 0, "void: a holder wrote late, and no update was lost without a fence");
        let _ = next.unlock().await;
        let _ = self.guard.unlock().await;
    }
}

/// Asks again if the store is not fit.
async fn locked(client: &LockClient, key: &LockKey, ttl: Duration) -> LockGuard {
    let wait = WaitPolicy::UpTo(AMPLE);
    let options = LockOptions::default().ttl(ttl).wait(wait).renew(RenewPolicy::Manual);
    let began = Instant::now();
    loop {
        match client.lock_with(key, &options).await {
            Ok(guard) => return guard,
            Err(error) => assert!(error.is_retryable() && began.elapsed() < AMPLE, "{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use distlock_conformance::history::{Promises, check};
    use distlock_conformance::recording::Recorded;
    use distlock_core::{LockBackend, MemoryBackend};

    use super::*;

    #[tokio::test]
    async fn it_costs_an_update_where_no_fence_is_and_breaks_no_promise() {
        let backend: Arc<dyn LockBackend> = Arc::new(MemoryBackend::new());
        let log = Arc::new(Recorder::in_memory(backend.clock()));
        let promises = Promises::of(backend.info());
        let client = LockClient::new(Arc::new(Recorded::new(backend, Arc::clone(&log))));
        let folder = tempfile::tempdir().unwrap();
        let ttl = Duration::from_millis(50);
        let late = LateWriter::start(client.clone(), "k", ttl, folder.path(), &log).await;
        late.write(&client).await;
        assert_eq!(crate::soak::lost_without_fence(&log.events()), 1);
        assert_eq!(check(&log.events(), promises), []);
    }
}
