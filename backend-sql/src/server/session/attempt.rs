//! One attempt at a lock.

use std::sync::Arc;
use std::time::Duration;

use distlock_core::{
    Busy, Effect, Error, ErrorKind, FencingToken, Holder, Lease, LockKey, LockRequest, Metadata, Mode,
    OwnerId, Result, TryLock,
};

use super::dialect::SessionDialect;
use super::held::Held;
use super::keeper::Keeper;
use super::link::Link;
use crate::server::error::Trouble;
use crate::server::{Given, Statement, Then, Value};

impl<D: SessionDialect> Keeper<D> {
    /// Takes the lock if it is free, on a connection of its own, and if not finds out who has it.
    pub(super) async fn attempt(self: Arc<Self>, request: LockRequest, ttl: Duration) -> Result<TryLock> {
        if !matches!(request.mode, Mode::Exclusive) {
            let message = "sessions have exclusive locks only";
            return Err(Error::new(ErrorKind::Unsupported, message).with_effect(Effect::None));
        }
        if let Some(held) = self.held.of(&request.claim)
            && let Some(sent) = self.prolong(&held, ttl).await?
        {
            return Ok(TryLock::Acquired(Lease::granted(&request, held.token, ttl, sent)));
        }
        let mut may_repeat = true;
        loop {
            let (link, was_idle) = self.links.check_out().await?;
            match self.take(link, &request, ttl).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) if may_repeat && self.may_repeat(&trouble, was_idle).await? => {
                    may_repeat = false
                }
                Err(trouble) => return Err(trouble.error),
            }
        }
    }

    async fn may_repeat(&self, trouble: &Trouble, was_idle: bool) -> Result<bool> {
        match trouble.then {
            Then::Again => Ok(true),
            Then::Create if self.may_create => {
                self.links.create().await?;
                Ok(true)
            }
            Then::Close if was_idle => {
                self.links.forget_idle();
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whatever fails here ends the link's session, and the lock with it.
    async fn take(
        self: &Arc<Self>,
        mut link: Link<D>,
        request: &LockRequest,
        ttl: Duration,
    ) -> Result<TryLock, Trouble> {
        let (sql, limit) = (&self.links.statements, self.links.response_timeout());
        let (key, owner) = (&request.claim.key, request.claim.owner);
        let name = self.name_of(&request.claim.key);
        let metadata: Value = request.metadata.encode().into();
        let sent = self.links.clock.now();
        self.links.count(1);
        let take = sql.take.with([
            name.as_slice().into(),
            key.into(),
            owner.into(),
            metadata.clone(),
            D::idle_limit(ttl),
        ]);
        let given = link.run(&take, limit).await?;
        let Some(row) = given.rows.first() else { return Err(lost_answer()) };
        let (state, id) = (row.maybe_int(0).map_err(failed)?, row.int(1).map_err(failed)?);
        link.check(id)?;
        let mut token = match state {
            None => return Err(lost_answer()),
            Some(0) => {
                let busy = self.look(&mut link, &request.claim.key).await?.busy();
                self.links.check_in(link);
                return Ok(TryLock::Busy(busy));
            }
            Some(-1) => return Err(collision(&request.claim.key)),
            Some(token) => token,
        };
        if let Some(statement) = &sql.limit
            && let Some(value) = link.new_limit(ttl)
        {
            self.links.count(1);
            link.run(&statement.with([value]), limit).await?;
        }
        link.limit = Some(ttl);
        if let Some(statement) = &sql.bump {
            self.links.count(1);
            let bump = statement.with([key.into(), owner.into(), metadata]);
            token = link.run(&bump, limit).await?.number;
        }
        let token = FencingToken::try_from(token).map_err(failed)?;
        let held = Held::new(request.claim.clone(), token, name, link, ttl, sent);
        self.keep(Arc::new(held));
        Ok(TryLock::Acquired(Lease::granted(request, token, ttl, sent)))
    }

    async fn look(&self, link: &mut Link<D>, key: &LockKey) -> Result<Seen, Trouble> {
        self.links.count(1);
        let given = link.run(&self.looking_at(key), self.links.response_timeout()).await?;
        Seen::read(&given, key)
    }

    pub(super) fn looking_at(&self, key: &LockKey) -> Statement {
        self.links.statements.look.with([self.name_of(key).as_slice().into(), key.into()])
    }
}

/// What a look at a lock showed.
pub(super) struct Seen {
    /// The number of the session that holds it, 0 if there is none.
    pub(super) session: i64,
    /// Whoever had it last.
    pub(super) last: Option<Holder>,
}

impl Seen {
    pub(super) fn read(given: &Given, key: &LockKey) -> Result<Self, Trouble> {
        let Some(row) = given.rows.first() else { return Ok(Self { session: 0, last: None }) };
        let session = row.maybe_int(0).map_err(failed)?.unwrap_or(0);
        let Some(found) = row.maybe_bytes(1).map_err(failed)? else {
            return Ok(Self { session, last: None });
        };
        if found != key.as_bytes() {
            return Err(collision(key));
        }
        let token = FencingToken::try_from(row.int(2).map_err(failed)?).map_err(failed)?;
        let owner = row.maybe_bytes(3).map_err(failed)?.and_then(OwnerId::from_bytes);
        let metadata = Metadata::decode(row.text(4).map_err(failed)?);
        Ok(Self { session, last: owner.map(|owner| Holder::new(owner, token).metadata(metadata)) })
    }

    pub(super) const fn is_held(&self) -> bool {
        self.session != 0
    }

    fn busy(self) -> Busy {
        let mut busy = Busy::unknown();
        // Nobody holds it any more if it was given back between the two statements.
        busy.holder = if self.is_held() { self.last } else { None };
        busy
    }
}

pub(super) const fn failed(error: Error) -> Trouble {
    Trouble { error, then: Then::Fail }
}

fn lost_answer() -> Trouble {
    let message =
        "the server gave no answer to the question for the lock, as when it is about to stop; see its log";
    Trouble {
        error: Error::new(ErrorKind::Unavailable, message).with_effect(Effect::Unknown),
        then: Then::Close,
    }
}

fn collision(key: &LockKey) -> Trouble {
    let message = format!(
        "another key has the same 64-bit hash as `{key}`, by which the server numbers locks, and had this number first; rename one of the two"
    );
    Trouble {
        error: Error::new(ErrorKind::Misconfigured, message).with_effect(Effect::None),
        then: Then::Fail,
    }
}
