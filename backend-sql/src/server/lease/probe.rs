//! Asking the server how it is, by the way that statements on rows go.

use async_trait::async_trait;
use distlock_core::{Clock, Health, Result};

use crate::server::connections::Lane;
use crate::server::probe::{Asked, KeptAs};
use crate::server::statement::{Row, Statement};
use crate::server::store::Store;

/// The server's version, and what is wrong with its set-up.
pub(super) async fn probe(store: &Store) -> Result<Health> {
    crate::server::probe::probe(&mut Attempts(store), &store.sql.probing, KeptAs::Rows).await
}

struct Attempts<'a>(&'a Store);

#[async_trait]
impl Asked for Attempts<'_> {
    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    async fn ask(&mut self, statement: Statement) -> Result<Vec<Row>> {
        Ok(self.0.run(Lane::Attempt, statement).await?.rows)
    }
}
