//! A backend that stages faults between its client and the store.

use std::collections::{HashMap, VecDeque};
use std::future::{self, Future};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Deadline, Effect, Error, ErrorKind, Health, Lease, LockAdmin,
    LockBackend, LockRequest, Operation, Release, Renewal, Result, TryLock,
};

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails without an effect.
    Refused(ErrorKind),
    /// It takes effect, and its answer is replaced by an error that leaves the effect open.
    AnswerLost,
    /// It takes effect, and no answer ever comes.
    AnswerSwallowed,
    /// It never reaches the store, and no answer ever comes.
    Silence,
    /// It reaches the store this much later, even if the caller has gone away by then.
    SentLate(Duration),
    /// It is answered this much later than it took effect.
    AnsweredLate(Duration),
    /// It reaches the store a second time, this much later.
    SentTwice(Duration),
}

/// Says what goes wrong, and counts. Shared with the backend it came with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    once: HashMap<Operation, VecDeque<Fault>>,
    always: HashMap<Operation, Fault>,
    calls: HashMap<Operation, usize>,
    /// Second sendings that have no answer yet.
    doubles: usize,
}

impl Script {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stages a fault for the next call of this kind that has none yet.
    pub(crate) fn once(&self, operation: Operation, fault: Fault) {
        self.state().once.entry(operation).or_default().push_back(fault);
    }

    /// Stages a fault for all calls of this kind.
    pub(crate) fn always(&self, operation: Operation, fault: Fault) {
        self.state().always.insert(operation, fault);
    }

    /// Stages a fault for all calls of every kind.
    pub(crate) fn everything(&self, fault: Fault) {
        for operation in
            [Operation::TryLock, Operation::Renew, Operation::Unlock, Operation::HandOver, Operation::Watch]
        {
            self.always(operation, fault);
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        state.once.clear();
        state.always.clear();
    }

    /// How many calls of this kind were made.
    pub(crate) fn calls(&self, operation: Operation) -> usize {
        self.state().calls.get(&operation).copied().unwrap_or(0)
    }

    /// How many calls that are sent twice wait for their second answer, or for their second sending.
    pub(crate) fn doubles(&self) -> usize {
        self.state().doubles
    }

    fn next(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.state();
        *state.calls.entry(operation).or_default() += 1;
        let once = state.once.get_mut(&operation).and_then(VecDeque::pop_front);
        once.or_else(|| state.always.get(&operation).copied())
    }
}

/// Passes everything on to `inner`, except where its script says otherwise.
#[derive(Debug)]
pub(crate) struct Interposed {
    inner: Arc<dyn LockBackend>,
    script: Script,
}

impl Interposed {
    pub(crate) fn new(inner: Arc<dyn LockBackend>) -> (Self, Script) {
        let script = Script::default();
        (Self { inner, script: script.clone() }, script)
    }

    async fn pass<T, F>(
        &self,
        operation: Operation,
        call: impl Fn(Arc<dyn LockBackend>) -> F + Send + Sync,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let call = || call(Arc::clone(&self.inner));
        let lost = |text: &str| Error::new(ErrorKind::Unavailable, text).in_operation(operation);
        match self.script.next(operation) {
            None => call().await,
            Some(Fault::Refused(kind)) => {
                Err(Error::new(kind, "refused by the test").with_effect(Effect::None).in_operation(operation))
            }
            Some(Fault::AnswerLost) => {
                let _ = call().await;
                Err(lost("the answer was lost by the test").with_effect(Effect::Unknown))
            }
            Some(Fault::AnswerSwallowed) => {
                let _ = call().await;
                future::pending().await
            }
            Some(Fault::Silence) => future::pending().await,
            Some(Fault::SentLate(by)) => {
                let late = call();
                let sent = tokio::spawn(async move {
                    tokio::time::sleep(by).await;
                    late.await
                });
                sent.await.unwrap_or_else(|_| Err(lost("the runtime ended")))
            }
            Some(Fault::AnsweredLate(by)) => {
                let result = call().await;
                tokio::time::sleep(by).await;
                result
            }
            Some(Fault::SentTwice(after)) => {
                let again = call();
                let result = call().await;
                let script = self.script.clone();
                script.state().doubles += 1;
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _ = again.await;
                    script.state().doubles -= 1;
                });
                result
            }
        }
    }
}

#[async_trait]
impl LockBackend for Interposed {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        self.pass(Operation::TryLock, |inner| {
            let request = request.clone();
            async move { inner.try_lock(&request).await }
        })
        .await
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.pass(Operation::Renew, |inner| {
            let lease = lease.clone();
            async move { inner.renew(&lease, ttl).await }
        })
        .await
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.pass(Operation::Unlock, |inner| {
            let claim = claim.clone();
            async move { inner.unlock(&claim).await }
        })
        .await
    }
    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        self.pass(Operation::HandOver, |inner| {
            let (lease, next) = (lease.clone(), next.clone());
            async move { inner.hand_over(&lease, &next).await }
        })
        .await
    }
    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        if self.info().supports.native_wait {
            return self.inner.lock(request, deadline).await;
        }
        distlock_core::acquire(self, request, deadline).await
    }
    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.pass(Operation::Watch, |inner| {
            let (claim, busy) = (claim.clone(), busy.clone());
            async move { inner.watch_release(&claim, &busy).await }
        })
        .await
    }
    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        self.pass(Operation::Watch, |inner| {
            let lease = lease.clone();
            async move { inner.watch_loss(&lease).await }
        })
        .await
    }
    async fn probe(&self) -> Result<Health> {
        self.pass(Operation::Probe, |inner| async move { inner.probe().await }).await
    }
    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin()
    }
    fn commands_sent(&self) -> Option<u64> {
        self.inner.commands_sent()
    }
    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
