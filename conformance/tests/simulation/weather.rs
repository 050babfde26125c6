//! What happens to calls between a client and its store.

use std::collections::HashSet;
use std::future::{self, Future};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Effect, Error, ErrorKind, Health, Lease, LockAdmin, LockBackend,
    LockRequest, OwnerId, Release, Renewal, Result, TryLock,
};

/// How bad it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Climate {
    /// How many of a thousand calls get into trouble.
    pub(crate) trouble: u64,
    /// Whether calls may arrive late or twice, after whoever sent them has gone.
    pub(crate) ghosts: bool,
    /// The longest delay.
    pub(crate) most: Duration,
}

/// Passes calls on to a store, through the weather.
#[derive(Debug)]
pub(crate) struct Weather {
    inner: Arc<dyn LockBackend>,
    climate: Climate,
    rng: Mutex<fastrand::Rng>,
    calm: AtomicBool,
    troubles: AtomicU64,
    releasing: Mutex<HashSet<OwnerId>>,
    faults: Mutex<Vec<String>>,
}

/// What is in store for one call.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Refused,
    AnswerLost,
    AnswerSwallowed,
    Swallowed,
    Late(Duration),
    Twice(Duration),
}

impl Weather {
    pub(crate) fn new(inner: Arc<dyn LockBackend>, climate: Climate, seed: u64) -> Self {
        Self {
            inner,
            climate,
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
            calm: AtomicBool::new(false),
            troubles: AtomicU64::new(0),
            releasing: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    /// Ends all trouble.
    pub(crate) fn calm(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn troubles(&self) -> u64 {
        self.troubles.load(Ordering::Relaxed)
    }

    /// Rules that the client broke.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap().clone()
    }

    fn fate(&self) -> Fate {
        let mut rng = self.rng.lock().unwrap();
        if self.calm.load(Ordering::Relaxed) || rng.u64(..1000) >= self.climate.trouble {
            return Fate::Arrives;
        }
        self.troubles.fetch_add(1, Ordering::Relaxed);
        let by = self.climate.most.mul_f64(rng.f64());
        match rng.u8(..if self.climate.ghosts { 7 } else { 4 }) {
            0 => Fate::Refused,
            1 => Fate::AnswerLost,
            2 => Fate::AnswerSwallowed,
            3 => Fate::Swallowed,
            4 | 5 => Fate::Late(by),
            _ => Fate::Twice(by),
        }
    }

    /// A way through the network: some await points, now and then some time.
    async fn travel(&self) {
        let (steps, time) = {
            let mut rng = self.rng.lock().unwrap();
            let slow = rng.u8(..8) == 0 && !self.calm.load(Ordering::Relaxed);
            let most = if slow { self.climate.most } else { Duration::from_millis(4) };
            (rng.u8(..3), most.mul_f64(rng.f64()))
        };
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        if steps != 1 {
            tokio::time::sleep(time).await;
        }
    }

    async fn pass<T, F>(&self, call: impl Fn(Arc<dyn LockBackend>) -> F + Send + Sync) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let call = || call(Arc::clone(&self.inner));
        let fate = self.fate();
        self.travel().await;
        let lost = |text: &str| Error::new(ErrorKind::Unavailable, text).with_effect(Effect::Unknown);
        let answer = match fate {
            Fate::Arrives => call().await,
            Fate::Refused => {
                Err(Error::new(ErrorKind::Unavailable, "refused by the weather").with_effect(Effect::None))
            }
            Fate::AnswerLost => call().await.and(Err(lost("the weather lost the answer"))),
            Fate::AnswerSwallowed => {
                let _ = call().await;
                future::pending().await
            }
            Fate::Swallowed => future::pending().await,
            Fate::Late(by) => {
                let late = call();
                let sent = tokio::spawn(async move {
                    tokio::time::sleep(by).await;
                    late.await
                });
                sent.await.unwrap_or_else(|_| Err(lost("the world ended")))
            }
            Fate::Twice(after) => {
                let again = call();
                let answer = call().await;
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _ = again.await;
                });
                answer
            }
        };
        self.travel().await;
        answer
    }

    /// Once the release of a grant has begun, its renewals are over for good.
    fn renewing(&self, leases: &[Lease]) {
        let releasing = self.releasing.lock().unwrap();
        for lease in leases.iter().filter(|lease| releasing.contains(&lease.claim.owner)) {
            let text = format!("renewal: {} is renewed although its release has begun", lease.claim.owner);
            self.faults.lock().unwrap().push(text);
        }
    }

    fn releasing(&self, claim: &Claim) {
        self.releasing.lock().unwrap().insert(claim.owner);
    }
}

#[async_trait]
impl LockBackend for Weather {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        self.pass(|inner| {
            let request = request.clone();
            async move { inner.try_lock(&request).await }
        })
        .await
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.renewing(std::slice::from_ref(lease));
        self.pass(|inner| {
            let lease = lease.clone();
            async move { inner.renew(&lease, ttl).await }
        })
        .await
    }
    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        self.renewing(leases);
        let answers = self
            .pass(|inner| {
                let leases = leases.to_vec();
                async move { Ok(inner.renew_many(&leases, ttl).await) }
            })
            .await;
        let lost = |_| {
            let error = Error::new(ErrorKind::Unavailable, "the weather lost a batch");
            Err(error.with_effect(Effect::Unknown))
        };
        answers.unwrap_or_else(|_| leases.iter().map(lost).collect())
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.releasing(claim);
        self.pass(|inner| {
            let claim = claim.clone();
            async move { inner.unlock(&claim).await }
        })
        .await
    }
    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        self.releasing(&lease.claim);
        self.pass(|inner| {
            let (lease, next) = (lease.clone(), next.clone());
            async move { inner.hand_over(&lease, &next).await }
        })
        .await
    }
    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.pass(|inner| {
            let (claim, busy) = (claim.clone(), busy.clone());
            async move { inner.watch_release(&claim, &busy).await }
        })
        .await
    }
    async fn probe(&self) -> Result<Health> {
        self.inner.probe().await
    }
    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin()
    }
}
