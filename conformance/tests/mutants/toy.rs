//! A small sound store, and the places where it can be made unsound.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use distlock_core::{
    BackendInfo, Busy, Cursor, Effect, Error, ErrorKind, FencingToken, Guarantees, Holder, Instant, Lease,
    LockKey, LockRequest, Metadata, Operation, OwnerId, Result, Supports,
};
use tokio::sync::Notify;

use crate::flaw::Flaw;

#[derive(Debug)]
pub(crate) struct Toy {
    pub(crate) flaw: Flaw,
    pub(crate) info: BackendInfo,
    state: Mutex<State>,
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) records: BTreeMap<Vec<u8>, Record>,
    pub(crate) tokens: HashMap<Vec<u8>, u64>,
    pub(crate) floor: u64,
    pub(crate) changes: u64,
    pub(crate) slow_by: Duration,
    pub(crate) outage: bool,
    pub(crate) silent: bool,
    pub(crate) mute: bool,
    pub(crate) losing: Option<Operation>,
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) holder: Option<Hold>,
    pub(crate) queue: Vec<(OwnerId, Instant)>,
    pub(crate) changed: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) owner: OwnerId,
    pub(crate) token: u64,
    pub(crate) deadline: Instant,
    metadata: Metadata,
}

impl Hold {
    pub(crate) fn describe(&self, now: Instant) -> Holder {
        let token = FencingToken::new(self.token).expect("tokens start at one");
        Holder::new(self.owner, token).expires_in(self.deadline.since(now)).metadata(self.metadata.clone())
    }
}

impl Record {
    pub(crate) fn tidy(&mut self, flaw: Flaw, now: Instant) {
        if flaw != Flaw::NeverExpires && self.holder.as_ref().is_some_and(|hold| now >= hold.deadline) {
            self.holder = None;
        }
        self.queue.retain(|(_, until)| now < *until);
    }
}

impl Toy {
    pub(crate) fn new(flaw: Flaw) -> Self {
        let mut supports = Supports::NONE.push().queue().hand_over().admin().adopt();
        supports.native_wait = flaw == Flaw::GrantWithoutLooking;
        let mut guarantees = Guarantees::single_process();
        guarantees.survives_restart = true;
        if flaw == Flaw::TtlIsRoundedDown {
            guarantees.ttl_grain = Duration::from_secs(1);
            guarantees.ttl_min = Duration::from_secs(1);
        }
        Self {
            flaw,
            info: BackendInfo::new("toy", guarantees, supports),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    pub(crate) fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic inside")
    }

    /// The key as this store tells keys apart.
    pub(crate) fn name(&self, key: &LockKey) -> Vec<u8> {
        let bytes = key.as_bytes();
        match self.flaw {
            Flaw::KeysAreLowercased => bytes.to_ascii_lowercase(),
            Flaw::KeysEndAtNul => bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
            _ => bytes.to_vec(),
        }
    }

    pub(crate) fn ttl(&self, wish: Duration) -> Result<Duration> {
        match self.flaw {
            Flaw::TakesAnyTtl => Ok(wish.min(self.info.guarantees.ttl_max)),
            Flaw::TtlIsRoundedDown => {
                self.info.guarantees.effective_ttl(wish)?;
                Ok(Duration::from_secs(wish.as_secs().max(1)))
            }
            _ => self.info.guarantees.effective_ttl(wish),
        }
    }

    /// When the store lets a lease end that it grants now.
    pub(crate) fn deadline(&self, now: Instant, ttl: Duration) -> Instant {
        match self.flaw {
            Flaw::TtlIsHalved => now.plus(ttl / 2),
            Flaw::ExpiresEarly => now.plus(ttl * 7 / 10),
            _ => now.plus(ttl),
        }
    }

    pub(crate) fn grant(&self, state: &mut State, request: &LockRequest, ttl: Duration, now: Instant) -> u64 {
        let name = self.name(&request.claim.key);
        let kept = state.tokens.get(&name).copied().unwrap_or(0);
        let last = if self.is(Flaw::FloorIsIgnored) { kept } else { kept.max(state.floor) };
        let token = last + 1;
        state.tokens.insert(name.clone(), token);
        let record = state.records.entry(name).or_default();
        record.queue.retain(|(owner, _)| *owner != request.claim.owner);
        record.holder = Some(Hold {
            owner: request.claim.owner,
            token,
            deadline: self.deadline(now, ttl),
            metadata: request.metadata.clone(),
        });
        token
    }

    pub(crate) fn lease(&self, request: &LockRequest, token: u64, ttl: Duration, sent: Instant) -> Lease {
        Lease::granted(request, FencingToken::new(token).expect("tokens start at one"), ttl, sent)
    }

    pub(crate) fn busy(record: &Record, now: Instant) -> Busy {
        let busy = match &record.holder {
            Some(hold) => Busy::by(hold.describe(now), hold.deadline.since(now)),
            None => Busy::unknown(),
        };
        busy.cursor(Cursor(record.changed))
    }

    /// Notes that waiters of this key have a reason to look again.
    pub(crate) fn announce(&self, state: &mut State, name: &[u8]) {
        state.changes += 1;
        if let Some(record) = state.records.get_mut(name) {
            record.changed = state.changes;
        }
        self.changed.notify_waiters();
    }

    /// What the network does to a call before it reaches the store.
    pub(crate) async fn before(&self) -> Result<()> {
        if self.state().silent {
            std::future::pending::<()>().await;
        }
        if self.state().outage {
            let kind = match self.flaw {
                Flaw::OutageIsFatal => ErrorKind::Misconfigured,
                _ => ErrorKind::Unavailable,
            };
            return Err(Error::new(kind, "the toy is switched off; switch it on again"));
        }
        Ok(())
    }

    /// What the network does to an answer.
    pub(crate) async fn after<T: Send>(&self, operation: Operation, answer: T) -> Result<T> {
        if self.state().mute {
            std::future::pending::<()>().await;
        }
        let (slow_by, lost) = {
            let mut state = self.state();
            let lost = state.losing == Some(operation);
            if lost {
                state.losing = None;
            }
            (state.slow_by, lost)
        };
        if !slow_by.is_zero() {
            tokio::time::sleep(slow_by).await;
        }
        if lost {
            let error = Error::new(ErrorKind::Unavailable, "the toy lost its answer; ask again");
            return Err(error.with_effect(Effect::Unknown));
        }
        Ok(answer)
    }
}
