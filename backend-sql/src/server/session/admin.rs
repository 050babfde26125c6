//! Looking at locks of sessions, and ending the sessions that hold them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distlock_core::{
    Deadline, Effect, Error, ErrorKind, FencingToken, Holder, LockAdmin, LockKey, LockRecord, Metadata,
    Operation, OwnerId, Result,
};

use super::attempt::Seen;
use super::backend::SessionLocks;
use super::dialect::SessionDialect;
use super::keeper::Keeper;
use crate::outlasting::Outlasting;
use crate::server::statement::{Row, Statement};
use crate::server::{Given, Then, floor, keys};

/// How often it is asked whether a session has ended.
const ENDED_EVERY: Duration = Duration::from_millis(5);

#[async_trait]
impl<D: SessionDialect> LockAdmin for SessionLocks<D> {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        let seen = self.look(key).await.map_err(self.during(Operation::Inspect, key))?;
        Ok(seen.last.as_ref().map(|last| {
            let record = LockRecord::new(key.clone()).last_token(last.token);
            if seen.is_held() { record.holder(last.clone()) } else { record }
        }))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let list = self.keeper().links.statements.list.with([
            prefix.into(),
            after.map_or(&[][..], LockKey::as_bytes).into(),
            keys::end_of_range(prefix).as_slice().into(),
            i64::try_from(limit).unwrap_or(i64::MAX).into(),
        ]);
        let named = |error: Error| error.on_backend(self.name()).in_operation(Operation::List);
        let given = self.ask(list).await.map_err(named)?;
        given.rows.iter().map(|row| listed(row).map_err(named)).collect()
    }

    /// Ends the session that holds the lock.
    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        self.end_holder(key).await.map_err(self.during(Operation::ForceUnlock, key))
    }

    async fn raise_token_floor(&self, to: FencingToken) -> Result<()> {
        let now = || async {
            let given = self.ask(self.keeper().links.statements.now.with([])).await?;
            given.rows.first().map_or(Ok(0), |row| row.int(0))
        };
        let named = |error: Error| error.on_backend(self.name()).in_operation(Operation::RaiseTokenFloor);
        floor::raise(to, now).await.map_err(named)
    }
}

#[expect(private_bounds, reason = "there are such locks for the databases of this crate, and for no others")]
impl<D: SessionDialect> SessionLocks<D> {
    async fn end_holder(&self, key: &LockKey) -> Result<Option<Holder>> {
        let seen = self.look(key).await?;
        if !seen.is_held() {
            return Ok(None);
        }
        let keeper = self.keeper();
        let end =
            keeper.links.statements.end.with([keeper.name_of(key).as_slice().into(), seen.session.into()]);
        match self.ask(end).await {
            Ok(_) => {}
            // It has ended meanwhile, or may not be ended.
            Err(_) if self.look(key).await?.session != seen.session => return Ok(seen.last),
            Err(error) => return Err(error),
        }
        let clock = &keeper.links.clock;
        let deadline = Deadline::after(clock, keeper.links.response_timeout());
        while self.look(key).await?.session == seen.session {
            if deadline.is_past(clock) {
                let message =
                    "the session that holds the lock was told to end, and has not ended yet; try again";
                return Err(Error::new(ErrorKind::Unavailable, message).with_effect(Effect::Unknown));
            }
            tokio::time::sleep(ENDED_EVERY).await;
        }
        Ok(seen.last)
    }

    /// How a lock is.
    pub(super) async fn look(&self, key: &LockKey) -> Result<Seen> {
        let look = self.keeper().looking_at(key);
        Ok(Seen::read(&self.ask(look).await?, key)?)
    }

    /// Asks on the connection that holds no locks.
    async fn ask(&self, statement: Statement) -> Result<Given> {
        Outlasting::new(ask(Arc::clone(self.keeper()), statement)).await
    }
}

/// Once more if the connection had been closed while nobody used it.
async fn ask<D: SessionDialect>(keeper: Arc<Keeper<D>>, statement: Statement) -> Result<Given> {
    loop {
        let (mut link, was_idle) = keeper.spare.check_out().await?;
        keeper.spare.count(1);
        match link.run(&statement, keeper.spare.response_timeout()).await {
            Ok(given) => {
                keeper.spare.check_in(link);
                return Ok(given);
            }
            Err(trouble) if was_idle && trouble.then == Then::Close => drop(link),
            Err(trouble) => return Err(trouble.error),
        }
    }
}

/// A lock that is held: key, token, owner, metadata.
fn listed(row: &Row) -> Result<LockRecord> {
    let key = LockKey::new(row.maybe_bytes(0)?.unwrap_or_default())?;
    let token = FencingToken::try_from(row.int(1)?)?;
    let record = LockRecord::new(key).last_token(token);
    Ok(match row.maybe_bytes(2)?.and_then(OwnerId::from_bytes) {
        Some(owner) => record.holder(Holder::new(owner, token).metadata(Metadata::decode(row.text(3)?))),
        None => record,
    })
}
