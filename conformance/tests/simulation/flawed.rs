//! Stores and clients with one flaw each, to show that the checks see it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Deadline, FencingToken, Health, Lease, LockAdmin, LockBackend, LockKey,
    LockRequest, LostReason, ManualClock, MemoryBackend, OwnerId, Release, Renewal, Result, TryLock,
};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    UnlockIgnoresTheOwner,
    RenewRecreates,
    TtlIsCutToNothing,
    TokensStartAgain,
    ValidityCountsFromTheAnswer,
    GrantedWithoutASecondLook,
    TroubleIsBusy,
    KeysAreLowercased,
    AStaleLeaderExpires,
    ALostAnswerIsBusy,
    /// Of the client: renewals go on when the release has begun.
    RenewsWhatItReleases,
    /// Of the client: each repeat has an owner of its own.
    RepeatsAsAnother,
    /// Of the holder: it asks a flag that was set when it got the lock, and not its clock.
    TrustsAFlag,
    /// Of the resource: it takes writes with any token.
    TheFenceIsOpen,
    /// Of the run itself.
    TheRunPanics,
}

/// Each flaw with how the faults begin that must be found because of it.
pub(crate) const MEANT: &[(Flaw, &[&str])] = &[
    (Flaw::UnlockIgnoresTheOwner, &["H4", "H7"]),
    (Flaw::RenewRecreates, &["H7"]),
    (Flaw::TtlIsCutToNothing, &["H1", "H7"]),
    (Flaw::TokensStartAgain, &["H2", "H7"]),
    (Flaw::ValidityCountsFromTheAnswer, &["H1", "H7"]),
    (Flaw::GrantedWithoutASecondLook, &["H1", "H7"]),
    (Flaw::TroubleIsBusy, &["H5", "H7"]),
    (Flaw::KeysAreLowercased, &["H5", "H7"]),
    (Flaw::AStaleLeaderExpires, &["H1", "H7"]),
    (Flaw::ALostAnswerIsBusy, &["H5", "H7"]),
    (Flaw::RenewsWhatItReleases, &["renewal"]),
    (Flaw::RepeatsAsAnother, &["left behind"]),
    (Flaw::TrustsAFlag, &["H6"]),
    (Flaw::TheFenceIsOpen, &["H3"]),
    (Flaw::TheRunPanics, &["the run panicked"]),
];

/// A memory store seen through its flaw, on a network whose calls sometimes fail below the recording.
#[derive(Debug)]
pub(crate) struct Flawed {
    store: Arc<MemoryBackend>,
    hand: ManualClock,
    flaw: Flaw,
    rng: Mutex<fastrand::Rng>,
}

impl Flawed {
    pub(crate) fn new(store: Arc<MemoryBackend>, hand: ManualClock, flaw: Flaw, seed: u64) -> Self {
        Self { store, hand, flaw, rng: Mutex::new(fastrand::Rng::with_seed(seed)) }
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// Timers count in milliseconds; without this, calls that come one after the other would come at once.
    fn tick(&self) {
        self.hand.advance(Duration::from_nanos(1));
    }

    fn one_in(&self, times: u8) -> bool {
        self.rng.lock().unwrap().u8(..times) == 0
    }

    fn key(&self, key: &LockKey) -> LockKey {
        match self.flaw {
            Flaw::KeysAreLowercased => LockKey::new(key.as_bytes().to_ascii_lowercase()).unwrap(),
            _ => key.clone(),
        }
    }

    fn claim(&self, claim: &Claim) -> Claim {
        Claim::new(self.key(&claim.key), claim.owner)
    }

    fn lease(&self, lease: &Lease) -> Lease {
        let mut stored = lease.clone();
        stored.claim = self.claim(&lease.claim);
        stored
    }

    async fn granted(&self, request: &LockRequest, mut lease: Lease) -> Lease {
        lease.claim = request.claim.clone();
        match self.flaw {
            Flaw::TtlIsCutToNothing => self.store.expire_now(&request.claim.key),
            Flaw::TokensStartAgain => {
                lease.token = FencingToken::new(lease.token.get() % 4 + 1).unwrap();
            }
            Flaw::ValidityCountsFromTheAnswer => {
                let late = self.rng.lock().unwrap().f64();
                tokio::time::sleep(lease.ttl.mul_f64(late)).await;
                lease.valid_until = lease.margin.valid_until(self.clock().now(), lease.ttl);
            }
            _ => {}
        }
        lease
    }
}

#[async_trait]
impl LockBackend for Flawed {
    fn info(&self) -> &BackendInfo {
        self.store.info()
    }
    fn clock(&self) -> Clock {
        self.store.clock()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        self.tick();
        let mut stored = request.clone();
        stored.claim = self.claim(&request.claim);
        if self.is(Flaw::TroubleIsBusy) && self.one_in(8) {
            return Ok(TryLock::Busy(Busy::unknown()));
        }
        if self.is(Flaw::AStaleLeaderExpires) && self.one_in(4) {
            self.store.expire_now(&stored.claim.key);
        }
        let answer = self.store.try_lock(&stored).await?;
        if self.is(Flaw::ALostAnswerIsBusy) && self.one_in(8) {
            return Ok(TryLock::Busy(Busy::unknown()));
        }
        Ok(match answer {
            TryLock::Acquired(lease) => TryLock::Acquired(self.granted(request, lease).await),
            TryLock::Busy(_) if self.is(Flaw::GrantedWithoutASecondLook) && self.one_in(8) => {
                let _ = self.store.force_unlock(&stored.claim.key).await?;
                self.store.unlock(&stored.claim).await?;
                stored.queue = false;
                self.store.try_lock(&stored).await?
            }
            busy => busy,
        })
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        self.tick();
        let stored = self.lease(lease);
        let renewal = self.store.renew(&stored, ttl).await?;
        if self.is(Flaw::RenewRecreates) && renewal == Renewal::Lost(LostReason::Expired) {
            let mut request = LockRequest::new(stored.claim, ttl);
            request.margin = lease.margin;
            if let TryLock::Acquired(again) = self.store.try_lock(&request).await? {
                return Ok(Renewal::Renewed { valid_until: again.valid_until });
            }
        }
        Ok(renewal)
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.tick();
        let claim = self.claim(claim);
        let release = self.store.unlock(&claim).await?;
        if self.is(Flaw::UnlockIgnoresTheOwner)
            && release != Release::Released
            && self.store.force_unlock(&claim.key).await?.is_some()
        {
            return Ok(Release::Released);
        }
        Ok(release)
    }
    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        self.tick();
        let mut stored = next.clone();
        stored.claim = self.claim(&next.claim);
        Ok(match self.store.hand_over(&self.lease(lease), &stored).await? {
            TryLock::Acquired(lease) => TryLock::Acquired(self.granted(next, lease).await),
            busy => busy,
        })
    }
    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.store.watch_release(&self.claim(claim), busy).await
    }
    async fn probe(&self) -> Result<Health> {
        self.store.probe().await
    }
    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.store.admin()
    }
}

/// What a client with a flaw makes of its own calls.
#[derive(Debug)]
pub(crate) struct FlawedClient {
    inner: Arc<dyn LockBackend>,
    flaw: Flaw,
    held: Mutex<HashMap<OwnerId, Lease>>,
    renamed: Mutex<HashMap<OwnerId, Claim>>,
}

impl FlawedClient {
    pub(crate) fn new(inner: Arc<dyn LockBackend>, flaw: Flaw) -> Self {
        Self { inner, flaw, held: Mutex::default(), renamed: Mutex::default() }
    }

    fn renamed(&self, claim: &Claim) -> Claim {
        self.renamed.lock().unwrap().get(&claim.owner).unwrap_or(claim).clone()
    }
}

#[async_trait]
impl LockBackend for FlawedClient {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let mut sent = request.clone();
        if self.flaw == Flaw::RepeatsAsAnother {
            sent.claim = Claim::mint(request.claim.key.clone());
            self.renamed.lock().unwrap().insert(request.claim.owner, sent.claim.clone());
        }
        let answer = self.inner.try_lock(&sent).await?;
        Ok(match answer {
            TryLock::Acquired(mut lease) => {
                lease.claim = request.claim.clone();
                self.held.lock().unwrap().insert(lease.claim.owner, lease.clone());
                TryLock::Acquired(lease)
            }
            busy => busy,
        })
    }
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let mut sent = lease.clone();
        sent.claim = self.renamed(&lease.claim);
        self.inner.renew(&sent, ttl).await
    }
    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let release = self.inner.unlock(&self.renamed(claim)).await;
        let held = self.held.lock().unwrap().remove(&claim.owner);
        if let Some(lease) = held
            && self.flaw == Flaw::RenewsWhatItReleases
        {
            let _ = self.inner.renew(&lease, lease.ttl).await;
        }
        release
    }
    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        distlock_core::acquire(self, request, deadline).await
    }
    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        self.inner.watch_release(&self.renamed(claim), busy).await
    }
    async fn probe(&self) -> Result<Health> {
        self.inner.probe().await
    }
    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin()
    }
}
