//! Looking at locks and taking them away.

use async_trait::async_trait;
use distlock_core::{
    Effect, Error, ErrorKind, FencingToken, Holder, LockAdmin, LockKey, LockRecord, Operation, Result,
};

use super::backend::LeaseRows;
use super::list;
use super::look::look;
use super::record::Record;
use crate::server::connections::Lane;
use crate::server::floor;
use crate::server::store::Store;

/// How often a lock may have changed hands before it is taken away.
const ROUNDS: usize = 16;

#[async_trait]
impl LockAdmin for LeaseRows {
    async fn inspect(&self, key: &LockKey) -> Result<Option<LockRecord>> {
        let record =
            look(&self.store, Lane::Attempt, key).await.map_err(self.during(Operation::Inspect, key))?;
        Ok(record.map(|record| record.shown(key.clone())))
    }

    async fn list(&self, prefix: &[u8], after: Option<&LockKey>, limit: usize) -> Result<Vec<LockRecord>> {
        let records = list::list(&self.store, prefix, after, limit).await;
        records.map_err(|error| error.on_backend(self.info.name).in_operation(Operation::List))
    }

    async fn force_unlock(&self, key: &LockKey) -> Result<Option<Holder>> {
        force_unlock(&self.store, key).await.map_err(self.during(Operation::ForceUnlock, key))
    }

    async fn raise_token_floor(&self, to: FencingToken) -> Result<()> {
        let now = || async {
            let answer = self.store.run(Lane::Attempt, self.store.sql.now.with([])).await?;
            answer.rows.first().map_or(Ok(0), |row| row.int(0))
        };
        floor::raise(to, now)
            .await
            .map_err(|error| error.on_backend(self.info.name).in_operation(Operation::RaiseTokenFloor))
    }
}

/// Takes the lock from its holder, tells who waits, and says from whom it was taken.
async fn force_unlock(store: &Store, key: &LockKey) -> Result<Option<Holder>> {
    for _ in 0..ROUNDS {
        let answer = store.run(Lane::Upkeep, store.sql.look.with([key.into()])).await?;
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let holder = match Record::read(row) {
            // It is replaced too; nobody can say who held it.
            Err(error) if error.kind() == ErrorKind::Corrupt => None,
            record => record?.holder(),
        };
        let force = store.sql.force.with([key.into(), row.int(1)?.into()]);
        if store.run(Lane::Upkeep, force).await?.matched > 0 {
            return Ok(holder);
        }
    }
    let message = "the lock changed hands again and again; try again";
    Err(Error::new(ErrorKind::Unavailable, message).with_effect(Effect::None))
}
