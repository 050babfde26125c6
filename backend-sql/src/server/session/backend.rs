//! The backend: each operation's way to the sessions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    BackendInfo, Busy, Claim, Clock, Error, Health, Lease, LockAdmin, LockBackend, LockKey, LockRequest,
    LostReason, Operation, Release, Renewal, Result, TryLock, Waiters, jittered,
};

use super::describe;
use super::dialect::SessionDialect;
use super::ear::Ear;
use super::held::AllHeld;
use super::keeper::Keeper;
use super::links::Links;
use super::probe::probe;
use crate::outlasting::Outlasting;
use crate::server::error::CLOSED;
use crate::server::probe::Probing;
use crate::server::{ServerConfig, Tables};

/// Locks that a database server keeps for a session: each takes a connection of its own for as long as it is held.
///
/// Made by `postgres::advisory::connect` and `mysql::named::connect`. Their documentation says what they promise
/// and what they do not.
#[expect(private_bounds, reason = "there are such locks for the databases of this crate, and for no others")]
pub struct SessionLocks<D: SessionDialect> {
    info: BackendInfo,
    keeper: Arc<Keeper<D>>,
    probing: Probing,
    waiters: Waiters<()>,
    poll: Duration,
}

#[expect(private_bounds, reason = "there are such locks for the databases of this crate, and for no others")]
impl<D: SessionDialect> SessionLocks<D> {
    /// Sees that the server is there, that sessions are what they seem, and the table too.
    pub(crate) async fn start(config: ServerConfig) -> Result<Self> {
        let table = config.table.clone();
        let tables = Tables::new(&config.clone().table(format!("{table}_sessions")), D::QUOTE);
        let probing = D::statements(&tables).probing;
        let tokens = tables.locks;
        if config.pooled {
            let message = "locks of sessions can't be behind a pooler that changes sessions; use lease rows";
            return Err(Error::new(distlock_core::ErrorKind::InvalidOptions, message));
        }
        let opening = D::opening(&config);
        let links = Arc::new(Links::new(&opening, &tokens, config.connections)?);
        let keeper = Keeper {
            ears: D::Ear::shared(&links),
            links,
            spare: Links::new(&opening, &tokens, 1)?,
            held: AllHeld::new(),
            table,
            may_create: config.create,
            running: distlock_core::Running::default(),
        };
        keeper.links.refuse_poolers().await?;
        if config.create {
            keeper.links.create().await?;
        }
        let info = describe(D::SESSION_BACKEND, config.connections);
        Ok(Self { info, keeper: Arc::new(keeper), probing, waiters: Waiters::new(), poll: config.poll })
    }

    /// Names the operation and the key in an error.
    pub(super) fn during(&self, operation: Operation, key: &LockKey) -> impl Fn(Error) -> Error {
        let name = self.info.name;
        move |error| error.on_backend(name).in_operation(operation).for_key(key)
    }

    /// What is to be said of a lock that this backend does not hold for the caller.
    async fn why_not_held(&self, key: &LockKey) -> Result<LostReason> {
        Ok(if self.look(key).await?.is_held() { LostReason::Stolen } else { LostReason::Expired })
    }

    /// The same, where its session was found to be over.
    async fn why_lost(&self, key: &LockKey) -> LostReason {
        match self.why_not_held(key).await {
            Ok(LostReason::Stolen) => LostReason::Stolen,
            _ => LostReason::SessionClosed,
        }
    }

    pub(super) const fn keeper(&self) -> &Arc<Keeper<D>> {
        &self.keeper
    }

    pub(super) const fn name(&self) -> &'static str {
        self.info.name
    }
}

#[async_trait]
impl<D: SessionDialect> LockBackend for SessionLocks<D> {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn clock(&self) -> Clock {
        self.keeper.links.clock.clone()
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<TryLock> {
        let during = self.during(Operation::TryLock, &request.claim.key);
        let ttl = self.info.guarantees.effective_ttl(request.ttl).map_err(&during)?;
        Outlasting::new(Arc::clone(&self.keeper).attempt(request.clone(), ttl)).await.map_err(during)
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renewal> {
        let renewing = async {
            let ttl = self.info.guarantees.effective_ttl(ttl)?;
            let held = self.keeper.held.of(&lease.claim).filter(|held| held.token == lease.token);
            let Some(held) = held else {
                return Ok(Renewal::Lost(self.why_not_held(&lease.claim.key).await?));
            };
            Ok(match self.keeper.prolong(&held, ttl).await? {
                Some(sent) => lease.renewed(ttl, sent),
                None => Renewal::Lost(self.why_lost(&lease.claim.key).await),
            })
        };
        renewing.await.map_err(self.during(Operation::Renew, &lease.claim.key))
    }

    async fn unlock(&self, claim: &Claim) -> Result<Release> {
        let during = self.during(Operation::Unlock, &claim.key);
        let release = Outlasting::new(Arc::clone(&self.keeper).release(claim.clone()));
        match release.await.map_err(&during)? {
            Some(release) => {
                self.waiters.wake(&claim.key, |_, ()| true);
                Ok(release)
            }
            None => Ok(Release::NotHeld(self.why_not_held(&claim.key).await.map_err(during)?)),
        }
    }

    async fn renew_many(&self, leases: &[Lease], ttl: Duration) -> Vec<Result<Renewal>> {
        futures_util::future::join_all(leases.iter().map(|lease| self.renew(lease, ttl))).await
    }

    async fn watch_release(&self, claim: &Claim, _: &Busy) -> Result<()> {
        let closed = || Error::new(distlock_core::ErrorKind::Shutdown, CLOSED);
        let mut waiter = self.waiters.join(claim, ()).ok_or_else(closed)?;
        tokio::select! {
            is_open = waiter.woken() => is_open.then_some(()).ok_or_else(closed),
            // Nobody tells of what other programs give back.
            () = tokio::time::sleep(jittered(self.poll)) => Ok(()),
        }
    }

    async fn watch_loss(&self, lease: &Lease) -> Result<()> {
        if let Some(held) = self.keeper.held.of(&lease.claim) {
            held.ended().await;
        }
        Ok(())
    }

    async fn probe(&self) -> Result<Health> {
        let (keeper, probing) = (Arc::clone(&self.keeper), self.probing.clone());
        let probed = Outlasting::new(async move { probe(&keeper.spare, &probing).await });
        probed.await.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::Probe))
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn commands_sent(&self) -> Option<u64> {
        Some(self.keeper.links.sent() + self.keeper.spare.sent())
    }

    /// Ends the sessions, and with them the locks that are held.
    async fn close(&self) -> Result<()> {
        self.waiters.close();
        for held in self.keeper.held.list() {
            self.keeper.held.remove(&held);
            held.end();
        }
        D::Ear::close(&self.keeper.ears);
        self.keeper.links.close().await;
        self.keeper.spare.close().await;
        Ok(())
    }
}

impl<D: SessionDialect> fmt::Debug for SessionLocks<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLocks").field("name", &self.info.name).finish_non_exhaustive()
    }
}
