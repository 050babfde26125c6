//! The toy as a backend.

use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Deadline, FencingToken, Health, Holder, Instant, Lease, LockAdmin,
    LockBackend, LockKey, LockRecord, LockRequest, LostReason, Operation, Release, Renewal, Result, TryLock,
};

use crate::flaw::Flaw;
use crate::toy::Toy;

impl Toy {
    fn try_now(&self, request: &LockRequest, ttl: Duration, sent: Instant) -> TryLock {
        let now = Clock::system().now();
        let mut state = self.state();
        let name = self.name(&request.claim.key);
        let owner = request.claim.owner;
        let record = state.records.entry(name.clone()).or_default();
        record.tidy(self.flaw, now);
        if let Some(hold) = record.holder.as_mut().filter(|hold| hold.owner == owner) {
            if self.is(Flaw::RepeatIsBusy) {
                return TryLock::Busy(Self::busy(record, now));
            }
            if !self.is(Flaw::RepeatDrawsAToken) {
                hold.deadline = hold.deadline.max(self.deadline(now, ttl));
                let token = hold.token;
                return TryLock::Acquired(self.lease(request, token, ttl, sent));
            }
            let token = self.grant(&mut state, request, ttl, now);
            return TryLock::Acquired(self.lease(request, token, ttl, sent));
        }
        let first = match self.flaw {
            Flaw::LastInFirstOut => record.queue.last(),
            Flaw::PlainTryPasses => None,
            _ => record.queue.first(),
        };
        if record.holder.is_none() && first.is_none_or(|(first, _)| *first == owner) {
            let token = self.grant(&mut state, request, ttl, now);
            return TryLock::Acquired(self.lease(request, token, ttl, sent));
        }
        if request.queue || self.is(Flaw::PlainTryQueues) {
            let until = now.plus(ttl);
            match record.queue.iter_mut().find(|(waiter, _)| *waiter == owner) {
                Some(place) => place.1 = until,
                None => record.queue.push((owner, until)),
            }
        }
        TryLock::Busy(Self::busy(record, now))
    }

    fn renew_now(&self, lease: &Lease, ttl: Duration, sent: Instant) -> Renewal {
        let now = Clock::system().now();
        let mut state = self.state();
        let name = self.name(&lease.claim.key);
        let deadline = self.deadline(now, ttl);
        let record = state.records.entry(name.clone()).or_default();
        record.tidy(self.flaw, now);
        match &mut record.holder {
            Some(hold) if hold.owner == lease.claim.owner => {
                let longer =
                    if self.is(Flaw::RenewShortens) { deadline } else { hold.deadline.max(deadline) };
                hold.deadline = longer;
                if self.is(Flaw::RenewDrawsAToken) {
                    hold.token += 1;
                    let token = hold.token;
                    state.tokens.insert(name, token);
                }
                lease.renewed(ttl, sent)
            }
            None if self.is(Flaw::RenewRecreates) => {
                let request = LockRequest::new(lease.claim.clone(), ttl);
                self.grant(&mut state, &request, ttl, now);
                lease.renewed(ttl, sent)
            }
            Some(_) if !self.is(Flaw::StolenIsExpired) => Renewal::Lost(LostReason::Stolen),
            _ => Renewal::Lost(LostReason::Expired),
        }
    }

    fn unlock_now(&self, claim: &Claim) -> Release {
        let now = Clock::system().now();
        let mut state = self.state();
        let name = self.name(&claim.key);
        let Some(record) = state.records.get_mut(&name) else {
            return if self.is(Flaw::AlwaysReleased) {
                Release::Released
            } else {
                Release::NotHeld(LostReason::Expired)
            };
        };
        record.tidy(self.flaw, now);
        if !self.is(Flaw::QuittersStay) {
            record.queue.retain(|(owner, _)| *owner != claim.owner);
        }
        let holder = record.holder.as_ref().map(|hold| hold.owner);
        let release = match holder {
            Some(owner) if owner == claim.owner || self.is(Flaw::UnlockIgnoresTheOwner) => {
                if !self.is(Flaw::ReleasedButKept) {
                    record.holder = None;
                }
                Release::Released
            }
            _ if self.is(Flaw::AlwaysReleased) => Release::Released,
            Some(_) if !self.is(Flaw::StolenIsExpired) => Release::NotHeld(LostReason::Stolen),
            _ => Release::NotHeld(LostReason::Expired),
        };
        self.announce(&mut state, &name);
        if self.is(Flaw::TokenGoesWithTheRecord)
            && state
                .records
                .get(&name)
                .is_some_and(|record| record.holder.is_none() && record.queue.is_empty())
        {
            state.records.remove(&name);
            state.tokens.remove(&name);
        }
        release
    }

    fn hand_over_now(&self, lease: &Lease, next: &LockRequest, ttl: Duration, sent: Instant) -> TryLock {
        let now = Clock::system().now();
        let mut state = self.state();
        let record = state.records.entry(self.name(&lease.claim.key)).or_default();
        record.tidy(self.flaw, now);
        let is_held = record.holder.as_ref().is_some_and(|hold| hold.owner == lease.claim.owner);
        if !is_held && !self.is(Flaw::HandOverIgnoresTheOwner) {
            return TryLock::Busy(Self::busy(record, now));
        }
        let token = self.grant(&mut state, next, ttl, now);
        if self.is(Flaw::HandOverKeepsTheToken) {
            return TryLock::Acquired(self.lease(next, lease.token.get(), ttl, sent));
        }
        TryLock::Acquired(self.lease(next, token, ttl, sent))
    }

    fn is_free(&self, key: &LockKey) -> bool {
        let now = Clock::system().now();
        let mut state = self.state();
        let record = state.records.entry(self.name(key)).or_default();
        record.tidy(self.flaw, now);
        record.holder.is_none()
    }
}

#[async_trait]
impl LockBackend for Toy {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let ttl = self.ttl(request.ttl)?;
        let sent = Clock::system().now();
        if let Err(error) = self.before().await {
            return if self.is(Flaw::TroubleIsBusy) {
                Ok(TryLock::Busy(Busy::unknown()))
            } else {
                Err(error)
            };
        }
        if self.is(Flaw::CheckThenAct) && self.is_free(&request.claim.key) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let token = self.grant(&mut self.state(), request, ttl, Clock::system().now());
            return Ok(TryLock::Acquired(self.lease(request, token, ttl, sent)));
        }
        let outcome = self.try_now(request, ttl, sent);
        let answered = self.after(Operation::TryLock, outcome).await;
        match answered {
            Err(_) if self.is(Flaw::LostAnswerIsBusy) => Ok(TryLock::Busy(Busy::unknown())),
            Ok(TryLock::Acquired(mut lease)) if self.is(Flaw::ValidityFromTheAnswer) => {
                lease.valid_until = request.margin.valid_until(Clock::system().now(), ttl);
                Ok(TryLock::Acquired(lease))
            }
            answered => answered,
        }
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let ttl = self.ttl(ttl)?;
        let sent = Clock::system().now();
        match self.before().await {
            Err(_) if self.is(Flaw::TroubleIsRenewed) => return Ok(lease.renewed(ttl, sent)),
            Err(_) if self.is(Flaw::OutageIsALoss) => return Ok(Renewal::Lost(LostReason::Expired)),
            reached => reached?,
        }
        let renewal = self.renew_now(lease, ttl, sent);
        self.after(Operation::Renew, renewal).await
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        let mut results = Vec::new();
        for lease in leases {
            results.push(self.renew(lease, ttl).await);
        }
        if self.is(Flaw::BatchOutOfOrder) {
            results.sort_by_key(|result| matches!(result, Ok(Renewal::Lost(_))));
        }
        results
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        self.before().await?;
        let release = self.unlock_now(claim);
        self.after(Operation::Unlock, release).await
    }

    async fn hand_over(&self, lease: &Lease, next: &LockRequest) -> Result<TryLock> {
        next.require_key_of(lease)?;
        let ttl = self.ttl(next.ttl)?;
        let sent = Clock::system().now();
        self.before().await?;
        let outcome = self.hand_over_now(lease, next, ttl, sent);
        self.after(Operation::HandOver, outcome).await
    }

    async fn lock(&self, request: &LockRequest, deadline: Deadline) -> Result<Lease> {
        if !self.is(Flaw::GrantWithoutLooking) {
            return distlock_core::acquire(self, request, deadline).await;
        }
        while !self.is_free(&request.claim.key) {
            if deadline.is_past(&self.clock()) {
                return distlock_core::acquire(self, request, deadline).await;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
        let sent = Clock::system().now();
        let token = self.grant(&mut self.state(), request, request.ttl, sent);
        Ok(self.lease(request, token, request.ttl, sent))
    }

    async fn watch_release(&self, claim: &Claim, busy: &Busy) -> Result<()> {
        let name = self.name(&claim.key);
        let mut cursor = busy.cursor.0;
        if self.is(Flaw::PushIgnoresTheCursor) {
            cursor = u64::MAX;
        }
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.is(Flaw::NoPush)
                && self.state().records.get(&name).is_none_or(|record| record.changed > cursor)
            {
                return Ok(());
            }
            changed.await;
            if self.is(Flaw::PushIgnoresTheCursor) {
                return Ok(());
            }
        }
    }

    async fn probe(&self) -> Result<Health> {
        self.before().await?;
        Ok(Health::new(None, Duration::ZERO))
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }
}

impl Toy {
    fn record(&self, key: LockKey) -> Option<LockRecord> {
        let now = Clock::system().now();
        let mut state = self.state();
        let record = state.records.get_mut(&self.name(&key))?;
        let expired = record.holder.clone();
        record.tidy(self.flaw, now);
        let holder = if self.is(Flaw::ShowsTheExpired) { expired } else { record.holder.clone() };
        if holder.is_none() && record.queue.is_empty() {
            return None;
        }
        let shown = LockRecord::new(key).waiters(record.queue.len() as u64);
        if self.is(Flaw::ShowsTheExpired) {
            record.holder.clone_from(&holder);
        }
        Some(match holder {
            Some(hold) => shown.holder(hold.describe(now)),
            None => shown,
        })
    }
}

#[async_trait]
impl LockAdmin for Toy {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        Ok(self.record(key.clone()))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let matches = |name: &[u8]| {
            let same = |(wanted, byte): (&u8, &u8)| {
                wanted == byte || (self.is(Flaw::PrefixIsAPattern) && *wanted == b'_')
            };
            name.len() >= prefix.len() && prefix.iter().zip(name).all(same)
        };
        let names: Vec<Vec<u8>> = self.state().records.keys().filter(|name| matches(name)).cloned().collect();
        let keys = names.into_iter().filter_map(|name| LockKey::new(name).ok());
        let rest = keys.filter(|key| after.is_none_or(|after| key > after));
        Ok(rest.filter_map(|key| self.record(key)).take(limit).collect())
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        let now = Clock::system().now();
        let name = self.name(key);
        let mut state = self.state();
        let Some(record) = state.records.get_mut(&name) else { return Ok(None) };
        record.tidy(self.flaw, now);
        let victim = record.holder.take().map(|hold| hold.describe(now));
        if self.is(Flaw::ForcedReleaseKeepsTheToken) {
            state.tokens.entry(name.clone()).and_modify(|token| *token -= 1);
        }
        self.announce(&mut state, &name);
        Ok(victim)
    }

    async fn raise_token_floor(&self, floor: FencingToken) -> Result<()> {
        let mut state = self.state();
        state.floor = state.floor.max(floor.get());
        Ok(())
    }
}
